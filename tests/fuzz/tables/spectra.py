"""Fourier transforms and signals."""

from ..template import each

SCALES = "<;, norm='ortho';, norm='forward'>"

TEMPLATES = (
    *each("fft ifft", "paddle.fft.@({r}<;, n=3;, axis={axis}>" + SCALES + ")"),
    *each("rfft ihfft", "paddle.fft.@({r}<;, n=3;, axis={axis}>" + SCALES + ")"),
    *each("irfft hfft", "paddle.fft.@(paddle.fft.rfft({v})<;, n=4;, n=5>" + SCALES + ")"),
    *each("fft2 ifft2 rfft2 ihfft2", "paddle.fft.@({m}" + SCALES + ")"),
    *each("fftn ifftn rfftn ihfftn", "paddle.fft.@({m}<;, axes=[0, -1]>" + SCALES + ")"),
    *each("irfft2 hfft2 irfftn hfftn", "paddle.fft.@(paddle.fft.rfft2({[3, 4]}, axes=(-2, -1))" + SCALES + ")"),
    *each("fftshift ifftshift", "paddle.fft.@({r}<;, axes={axis}>)"),
    "paddle.fft.fft({c})",
    "paddle.fft.ifft({c}).abs()",
    "paddle.fft.fftfreq(<5;4>, <1.0;0.5>)",
    "paddle.fft.rfftfreq(<5;4>, <1.0;0.5>)",
    "paddle.signal.stft({[2, 16]}, 8, <4;3><;, center=False>)",
    "paddle.signal.stft({[16]}, 8, window=paddle.ones([8]) * 0.5<;, normalized=True>)",
    "paddle.signal.istft(paddle.signal.stft({[1, 16]}, 8, 4), 8, 4)",
    "paddle.signal.frame({[8]}, 4, <2;3>)",
    "paddle.signal.overlap_add({[4, 3]}, <2;3>)",
    "paddle.audio.functional.get_window('hann', 8)",
    "paddle.audio.functional.power_to_db({x}.abs() + 0.5)",
    "paddle.audio.functional.create_dct(3, 4)",
    "paddle.audio.functional.compute_fbank_matrix(16000, 16, 4)",
    *each("hann_window hamming_window blackman_window bartlett_window kaiser_window", "paddle.@(<8;5>)"),
)
