"""Ports that the package index has, beside their originals: vision, diffusion, speech; all small."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from . import stand_ins
from .nlp import as_tensor
from .pair import DIFFERS, Pair, trained_size

Maker = tuple[str, dict[str, Any]]
CLAS = "paddleclas.ppcls.arch.backbone"


def made(maker: Maker) -> Any:
    """What ``package.module:name`` makes with these arguments."""
    path, options = maker
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)(**options)


def images(*shape: int) -> Callable[[], Any]:
    """Random numbers of a shape, for both."""

    def drawn() -> Any:
        return np.random.default_rng(0).standard_normal(shape).astype("float32")

    return drawn


def by_side(*shapes: tuple[int, ...], scale: float = 1.0) -> Callable[[], Any]:
    """Several positional inputs, of numbers from 0 to ``scale``."""

    def drawn() -> Any:
        draw = np.random.default_rng(0)
        return tuple((scale * draw.random(shape)).astype("float32") for shape in shapes)

    return drawn


def steps(*shapes: tuple[int, ...]) -> Callable[[], Any]:
    """Noise at time step 7, and what else a network of a diffusion gets."""

    def drawn() -> Any:
        draw = np.random.default_rng(0)
        sample, *others = [draw.standard_normal(shape).astype("float32") for shape in shapes]
        return lambda side: tuple(as_tensor(side, array) for array in (sample, np.array([7, 7]), *others))

    return drawn


def image() -> Any:
    """One, as ppdet's networks take it."""
    array = images(1, 3, 32, 32)()
    return lambda side: ({"image": as_tensor(side, array)},) if side == "paddle" else (as_tensor(side, array),)


def segformer(**config: Any) -> Any:
    """The network of transformers' SegFormer, which gives what each of its stages makes."""
    transformers = importlib.import_module("transformers")
    return transformers.SegformerModel(transformers.SegformerConfig(**config, output_hidden_states=True))


def both(port: Maker, original: Maker, inputs: Callable[[], Any]) -> tuple[Any, Any, Any]:
    stand_ins.declare_operators()
    stand_ins.older_names()
    module = made(original)  # first: PaddleFormers and paddlenlp hide Torch from what is imported later
    stand_ins.install()
    layer = made(port)
    layer.eval()
    return layer, trained_size(module), inputs()


def pair(title: str, port: Maker, original: Maker, inputs: Callable[[], Any], **more: Any) -> Pair:
    library = port[0].replace(":", ".").partition(".")[0]
    return Pair(f"{title} ({library})", library, lambda: both(port, original, inputs), **more)


VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4, "qkv_bias": True}
TIMM_VIT = {**VIT, "num_classes": 10}
SWIN = {"img_size": 64, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "drop_path_rate": 0.0}
CONVNEXT = {"depths": [1, 1, 1, 1], "dims": [16, 24, 32, 48]}
PIT = {"patch_size": 8, "stride": 4, "base_dims": [16, 16, 16], "depth": [1, 1, 1], "heads": [1, 2, 4], "mlp_ratio": 4}
KL = {
    "down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2, "block_out_channels": (16, 32),
    "norm_num_groups": 8, "latent_channels": 4, "sample_size": 16,
}  # fmt: skip
UNET = {
    "sample_size": 16, "block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8, "attention_head_dim": 8,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
}  # fmt: skip
CONDITIONED = {
    **UNET, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 24,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}  # fmt: skip
DIT = {"num_attention_heads": 2, "attention_head_dim": 16, "in_channels": 16, "num_layers": 1, "norm_num_groups": 8}
VECTOR = {"input_size": 24, "embd_dim": 16}
STAGES = {"depths": [1, 1, 1, 1], "mlp_ratios": [2, 2, 2, 2], "sr_ratios": [4, 2, 2, 1]}
MIT = {**STAGES, "embed_dims": [8, 16, 24, 32], "num_heads": [1, 2, 3, 4], "qkv_bias": True}
SEGFORMER = {**STAGES, "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 3, 4]}
SPECTRUM = {"sr": 8000, "hop_length": 64, "verbose": False}
TONES = {**SPECTRUM, "fmin": 220, "n_bins": 24}
SMALL = images(2, 3, 32, 32)
EPSILON = "LayerNorm's epsilon=1e-5 against 1e-6"

PAIRS = (
    pair("ResNet-18", (f"{CLAS}.legendary_models.resnet:ResNet18", {"class_num": 10}),
         ("torchvision.models:resnet18", {"num_classes": 10}), SMALL),
    pair("MobileNetV2", (f"{CLAS}.model_zoo.mobilenet_v2:MobileNetV2", {"class_num": 10}),
         ("torchvision.models:mobilenet_v2", {"num_classes": 10}), SMALL),
    pair("DenseNet-121", (f"{CLAS}.model_zoo.densenet:DenseNet121", {"class_num": 10}),
         ("torchvision.models:densenet121", {"num_classes": 10}), SMALL),
    pair("ViT", (f"{CLAS}.model_zoo.vision_transformer:VisionTransformer", {**VIT, "class_num": 10, "epsilon": 1e-6}),
         ("timm.models.vision_transformer:VisionTransformer", TIMM_VIT), SMALL),
    pair("Swin", (f"{CLAS}.legendary_models.swin_transformer:SwinTransformer", {**SWIN, "class_num": 10}),
         ("timm.models.swin_transformer:SwinTransformer", {**SWIN, "num_classes": 10}), images(1, 3, 64, 64)),
    pair("ConvNeXt", (f"{CLAS}.model_zoo.convnext:ConvNeXt", {**CONVNEXT, "class_num": 10}),
         ("timm.models.convnext:ConvNeXt", {**CONVNEXT, "num_classes": 10}), SMALL),
    pair("Res2Net-50", (f"{CLAS}.model_zoo.res2net:Res2Net50_26w_4s", {"class_num": 10}),
         ("timm.models.res2net:res2net50_26w_4s", {"num_classes": 10}), images(1, 3, 32, 32),
         expected=DIFFERS, reason="an AvgPool2D that counts its padding otherwise"),
    pair("MobileViT-XXS", (f"{CLAS}.model_zoo.mobilevit:MobileViT_XXS", {"class_num": 10}),
         ("timm.models.mobilevit:mobilevit_xxs", {"num_classes": 10}), images(1, 3, 64, 64), expected=DIFFERS, reason=EPSILON),
    pair("RegNetX-200MF", (f"{CLAS}.model_zoo.regnet:RegNetX_200MF", {"class_num": 10}),
         ("timm.models.regnet:regnetx_002", {"num_classes": 10}), SMALL),
    pair("PVTv2-B0", (f"{CLAS}.model_zoo.pvt_v2:PVT_V2_B0", {"class_num": 10}),
         ("timm.models.pvt_v2:pvt_v2_b0", {"num_classes": 10}), images(1, 3, 64, 64)),
    pair("MiT", ("paddleseg.models.backbones.mix_transformer:MixVisionTransformer", {**MIT, "img_size": 64}),
         ("ports.index:segformer", SEGFORMER), images(1, 3, 64, 64)),
    pair("ViT", ("ppim.models.vit:VisionTransformer", {**VIT, "class_dim": 10}),
         ("timm.models.vision_transformer:VisionTransformer", TIMM_VIT), SMALL, expected=DIFFERS, reason=EPSILON),
    pair("Mixer", ("ppim.models.mixer:MlpMixer", {
            "img_size": (32, 32), "patch_size": (8, 8), "num_blocks": 2, "hidden_dim": 32, "tokens_mlp_dim": 16,
            "channels_mlp_dim": 128, "class_dim": 10}),
         ("timm.models.mlp_mixer:MlpMixer", {
            "img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32, "num_classes": 10}), SMALL),
    pair("RexNet", ("ppim.models.rexnet:ReXNet", {"class_dim": 10}), ("timm.models.rexnet:RexNet", {"num_classes": 10}), SMALL),
    pair("PiT", ("ppim.models.pit:PoolingTransformer", {**PIT, "image_size": 32, "class_dim": 10}),
         ("timm.models.pit:PoolingVisionTransformer", {**PIT, "img_size": 32, "num_classes": 10}), SMALL),
    pair("CaiT", ("ppim.models.cait:CaiT", {**VIT, "class_dim": 10, "depth_token_only": 1}),
         ("timm.models.cait:Cait", {**TIMM_VIT, "depth_token_only": 1}), SMALL),
    pair("AutoencoderKL", ("ppdiffusers.models.autoencoder_kl:AutoencoderKL", KL), ("diffusers:AutoencoderKL", KL), SMALL),
    pair("UNet2D", ("ppdiffusers.models.unet_2d:UNet2DModel", UNET), ("diffusers:UNet2DModel", UNET), steps((2, 3, 16, 16))),
    pair("UNet2DCondition", ("ppdiffusers.models.unet_2d_condition:UNet2DConditionModel", CONDITIONED),
         ("diffusers:UNet2DConditionModel", CONDITIONED), steps((2, 4, 16, 16), (2, 5, 24))),
    pair("Transformer2D", ("ppdiffusers.models.transformer_2d:Transformer2DModel", DIT), ("diffusers:Transformer2DModel", DIT),
         images(2, 16, 8, 8)),
    pair("AutoencoderTiny", ("ppdiffusers.models.autoencoder_tiny:AutoencoderTiny", {}), ("diffusers:AutoencoderTiny", {}),
         images(1, 3, 16, 16), expected=DIFFERS, reason="latents multiplied by their magnitude"),
    *(pair(name, (f"ppvector.models.{module}:{name}", VECTOR), (f"mvector.models.{module}:{name}", VECTOR), images(2, 32, 24))
      for module, name in (("ecapa_tdnn", "EcapaTdnn"), ("tdnn", "TDNN"), ("campplus", "CAMPPlus"), ("resnet_se", "ResNetSE"))),
    *(pair(name, (f"ppAudio.features:{name}", options), (f"nnAudio.features:{name}", options), images(2, 4000))
      for name, options in (("STFT", {**SPECTRUM, "n_fft": 256}), ("MelSpectrogram", {**SPECTRUM, "n_fft": 256, "n_mels": 20}),
                            ("CQT1992v2", TONES), ("VQT", TONES))),
    pair("SSIM", ("paddle_msssim:SSIM", {"data_range": 1.0}), ("pytorch_msssim:SSIM", {"data_range": 1.0}),
         by_side((2, 3, 24, 24), (2, 3, 24, 24))),
    pair("LPIPS", ("paddle_lpips:LPIPS", {"net": "alex", "pnet_rand": True, "pretrained": False, "verbose": False}),
         ("lpips:LPIPS", {"net": "alex", "pnet_rand": True, "pretrained": False, "verbose": False}),
         by_side((1, 3, 64, 64), (1, 3, 64, 64))),
    pair("ResNet-50", ("ppdet.modeling.backbones.resnet:ResNet", {"freeze_at": -1, "freeze_norm": False, "return_idx": [3]}),
         ("timm.models.resnet:resnet50", {"features_only": True, "out_indices": (4,)}), image),
)  # fmt: skip
