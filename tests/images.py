"""``make images``: the picture of the README, the top of the proof's page of the port in docs/port-a-model.md."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from project.test_port_a_model import ROOT, blocks
from report_page import ARGUMENTS, CHROMIUM

PICTURE = ROOT / "docs" / "images" / "proof.png"
WIDTH, MARGIN = 1100, 14


def page(folder):
    """The page of the fresh port, with its mistakes."""
    for is_program, text in blocks():
        if is_program:
            (folder / text.splitlines()[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PADIFF_SHIM_LANG": "en"}
    subprocess.run([sys.executable, "prove.py"], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    return folder / "proof.html"


def main():
    PICTURE.parent.mkdir(exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        opened = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        opened.goto(page(Path(folder)).as_uri())
        first = opened.locator(".mistake").first.bounding_box()
        opened.screenshot(path=PICTURE, clip={"x": 0, "y": 0, "width": WIDTH, "height": first["y"] + first["height"] + MARGIN})
        browser.close()
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
