"""The Python programs of the README and of the pages that no other test runs: they run, in order, and say what the page says."""

import re

import forked
import pytest
from helpers import ROOT, thinned

BEFORE = """\
import numpy
import paddle
import torch
import padiff_shim

paddle.seed(0)
model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.GELU(), paddle.nn.LayerNorm(16), paddle.nn.Linear(16, 3))
optimizer = paddle.optimizer.SGD(0.1, parameters=model.parameters())
x, label = paddle.randn([32, 8]), paddle.randint(0, 3, [32])
port_output, original_output = model(x), model(x)


def train():
    paddle.nn.functional.cross_entropy(model(x), label).backward()
    optimizer.step()
    optimizer.clear_grad()


"""
# What the program prints, and the page says too. The first program of the README is that of docs/port-a-model.md.
SAYS = {
    "README.md": ["All 15 float calls ran on torch's kernels.", "Optimizers on torch kernels: adamw by Torch's definition (18)."],
    "README.zh-CN.md": ["全部 15 次浮点调用都在 torch 的内核上运行。", "torch 内核上的优化器：adamw 按 Torch 的定义（18）。"],
    "docs/audit.md": ["Paddle's kernels of leaky_relu cause the difference (1 of 4 ops; no other is involved); 7 runs"],
    "docs/compare.md": [],
    "docs/prove.md": [
        "CODE_DIFFERS: another attribute: approximate=True against False (write approximate=False), at port.py:22",
        "return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))",
        "CODE_CORRECT: bit for bit on Torch's kernels; natively the port does not run",
        "another setting of the optimizer: weight_decay=0.1 against 0.01",
        "✓ backward: 6 gradients identical bit for bit",
        "148 of 148 identical on Torch's kernels",
    ],
    "docs/zh/prove.md": [
        "CODE_DIFFERS: 属性不同：approximate=True，应为 False（改写为 approximate=False），在 port.py:22",
        "return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))",
        "CODE_CORRECT: 在 Torch 的内核上逐位一致；移植版在原生内核上不能运行",
        "优化器设置不同：weight_decay=0.1，应为 0.01",
        "✓ 反向：6 个梯度逐位一致",
    ],
    "docs/definitions.md": [],
    "docs/record.md": [],
    "docs/run.md": [],
}
LEAVES = {
    "README.md": ["report.html"],
    "docs/audit.md": ["audit/audit.md", "audit/audit.html", "audit/audit.json"],
    "docs/compare.md": ["report.html", "runs/monday"],
    "docs/prove.md": ["drift.html"],
    "docs/record.md": ["here", "there"],
    "docs/run.md": ["run.html"],
}


def spaced(text):
    return " ".join(text.split())


def english(page):
    """The page that one in Chinese follows."""
    return page.replace("zh/", "").replace(".zh-CN", "")


def programs(page, text):
    """The page's programs that belong together, as one."""
    programs = [
        block for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE) if not block.startswith("# ")
    ]
    if page == "README.md":
        return "\n".join(programs[1:])
    if page == "docs/audit.md":
        every = 'audit(folder="audit")'
        return "\n".join(programs).replace(every, 'audit(folder="audit", ops="tanh", defects=False)')
    if page == "docs/record.md":
        recorded, diff = programs[:2]
        return "\n".join([recorded, recorded.replace('"here"', '"there"'), diff])
    if page == "docs/prove.md":
        # To begin the optimizer's part with a right port.
        return "\n".join(
            [
                programs[0],
                programs[0].rpartition("\n\n")[0].replace(", approximate=True", ""),
                "x = np.ones((2, 16))",
                programs[1],
                "print(proof.headline)",
                programs[2],
                "print(proof)",
                programs[3],
                "print(drift.headline)",
            ]
        )
    return "\n".join(programs)


@pytest.mark.bitexact
@pytest.mark.parametrize("page", thinned(SAYS, "README.md", "docs/prove.md"))
def test_the_programs_of_a_page(page, tmp_path):
    text, followed = (ROOT / page).read_text(encoding="utf-8"), english(page)
    # docs/prove.md shows line numbers of port.py, which begins with its first program.
    program = programs(followed, text) if followed == "docs/prove.md" else BEFORE + programs(followed, text)
    (tmp_path / "port.py").write_text(program, encoding="utf-8")
    done = forked.run(
        ["port.py"], cwd=tmp_path, COLUMNS="300", MPLBACKEND="agg", PADIFF_SHIM_LANG="en" if page == followed else "zh"
    )
    assert done.returncode == 0, done.stderr
    for words in SAYS[page]:
        assert words in spaced(text), words
        assert words in spaced(done.stdout), done.stdout
    assert [name for name in LEAVES.get(followed, []) if not (tmp_path / name).exists()] == []
