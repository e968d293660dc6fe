"""A spatial transformer (Jaderberg et al., 2015) in front of a reader of lines with CTC (Graves et al., 2006), in Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class Reader(nn.Layer):
    def __init__(self, c=4, d=8, signs=6):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2D(1, c, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.AdaptiveAvgPool2D((2, 2)))
        self.theta = nn.Linear(4 * c, 6)
        self.conv, self.norm = nn.Conv2D(1, c, 3, padding=1, padding_mode="circular"), nn.InstanceNorm2D(c)
        self.slope = self.create_parameter([c], default_initializer=nn.initializer.Constant(0.25))
        self.rnn, self.out = nn.GRU(4 * c, d), nn.Linear(d, signs)

    def forward(self, image, labels, lengths):
        moved = self.theta(self.locate(image).flatten(1)).reshape([-1, 2, 3]) * 0.2
        theta = moved + paddle.to_tensor([[1.0, 0, 0], [0, 1.0, 0]], dtype=image.dtype)
        x = self.conv(image)
        grid = F.affine_grid(theta, x.shape, align_corners=False)
        x = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
        x = F.max_pool2d(F.prelu(self.norm(x), self.slope), (2, 1))
        x = F.interpolate(x, size=(4, 10), mode="bilinear", align_corners=True)
        x, _ = self.rnn(x.transpose([0, 3, 1, 2]).flatten(2))
        logits = self.out(x).transpose([1, 0, 2])
        sizes = paddle.full([image.shape[0]], logits.shape[0], dtype="int64")
        loss = F.ctc_loss(logits, labels.astype("int32"), sizes, lengths, blank=0, reduction="mean")
        return {"logs": F.log_softmax(logits, axis=-1), "loss": loss}
