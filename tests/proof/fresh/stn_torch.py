"""A spatial transformer (Jaderberg et al., 2015) in front of a reader of lines with CTC (Graves et al., 2006), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Reader(nn.Module):
    def __init__(self, c=4, d=8, signs=6):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(1, c, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 2)))
        self.theta = nn.Linear(4 * c, 6)
        self.conv, self.norm = nn.Conv2d(1, c, 3, padding=1, padding_mode="circular"), nn.InstanceNorm2d(c, affine=True)
        self.slope = nn.Parameter(torch.full((c,), 0.25) + 0.1 * torch.randn(c))
        self.rnn, self.out = nn.GRU(4 * c, d, batch_first=True), nn.Linear(d, signs)

    def forward(self, image, labels, lengths):
        moved = self.theta(self.locate(image).flatten(1)).view(-1, 2, 3) * 0.2
        theta = moved + torch.tensor([[1.0, 0, 0], [0, 1.0, 0]], dtype=image.dtype)
        x = self.conv(image)
        grid = F.affine_grid(theta, x.shape, align_corners=False)
        x = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
        x = F.max_pool2d(F.prelu(self.norm(x), self.slope), (2, 1))
        x = F.interpolate(x, size=(4, 10), mode="bilinear", align_corners=True)
        x, _ = self.rnn(x.permute(0, 3, 1, 2).flatten(2))
        logs = F.log_softmax(self.out(x), dim=-1).transpose(0, 1)
        sizes = torch.full((image.shape[0],), logs.shape[0], dtype=torch.long)
        return {"logs": logs, "loss": F.ctc_loss(logs, labels, sizes, lengths, blank=0, reduction="mean")}
