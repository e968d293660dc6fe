"""The style of the audit's page: light and dark, and rows as cards on a narrow screen."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 80rem; margin: 1.5rem auto; padding: 0 1rem; overflow-wrap: break-word; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: .5rem 0; border-block: 1px solid var(--line); }
summary { cursor: pointer; padding: .4rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: Canvas; }
td:first-child { font-family: ui-monospace, monospace; }
td[data-of=side] { white-space: nowrap; }
td[data-of=worst], td[data-of=why], td[data-of="for example"] { overflow-wrap: anywhere; min-width: 9rem; }
tbody tr:hover { background: var(--soft); }
@media (max-width: 50rem) {
  thead { display: none; }
  tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  td { display: block; border: 0; padding: .1rem 0; }
  td:first-child { font-weight: 600; }
  td:not(:first-child):not(:empty)::before { content: attr(data-of) ": "; opacity: .7; }
  td[data-of=side], td[data-of=verdict] { display: inline; }
  td[data-of=side]:not(:empty)::before, td[data-of=verdict]:not(:empty)::before { content: none; }
  td[data-of=side]:not(:empty)::after { content: ": "; }
}
"""
