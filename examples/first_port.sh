#!/usr/bin/env bash
# From nothing to a proven port: install, first proof, equal bits, the report of the pull request, a training run in CI.
# It works on a copy of examples/first_port in a folder of its own: bash examples/first_port.sh [FOLDER]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}

echo "== 1. Install (450 MB, if the frameworks are not there yet)"
if command -v padiff-shim > /dev/null; then shim=(padiff-shim); else shim=(python -m padiff_shim); fi
"${shim[@]}" --version || { pip install "$here/..[paddle,torch]" && shim=(padiff-shim); }
"${shim[@]}" doctor | head -1

cp "$here"/first_port/*.py "$work"
cd "$work"
pair=(port.py:Classifier original.py:Classifier --inputs original.py:batch)

echo "== 2. First proof: the port has a mistake; the proof says where, and what to write"
"${shim[@]}" prove "${pair[@]}" --html proof.html && exit 1 || test $? = 1
sed -i 's/LayerNorm(16)/LayerNorm(16, epsilon=1e-6)/' port.py
"${shim[@]}" prove "${pair[@]}"

echo "== 3. Equal bits: a right port that rounds otherwise; --apply writes the change into port.py"
"${shim[@]}" prove "${pair[@]}" --bits --apply && exit 1 || test $? = 1
"${shim[@]}" prove "${pair[@]}" --bits

echo "== 4. What goes into the pull request: layers, gradients and ten steps of a training, in two dtypes"
"${shim[@]}" prove "${pair[@]}" --train AdamW --steps 10 --dtype float32 --dtype bfloat16 --report report.md

echo "== 5. A training run in CI: no call may be worse than in the baseline"
"${shim[@]}" run --compare --quiet --log runs/before train.py
"${shim[@]}" gate runs/before --baseline baseline.jsonl --update
"${shim[@]}" run --compare --quiet --log runs/now train.py
"${shim[@]}" log runs/now | head -1
"${shim[@]}" gate runs/now --baseline baseline.jsonl

echo "== Done: $work/proof.html, $work/report.md, $work/baseline.jsonl"
