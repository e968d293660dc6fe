// Putting it together.

const THEMES = ["system", "light", "dark"]; // tr("system"), tr("light"), tr("dark")

function buildTheme() {
  const button = $("theme");
  let now = 0;
  button.addEventListener("click", () => {
    now = (now + 1) % THEMES.length;
    if (now) document.documentElement.dataset.theme = THEMES[now];
    else delete document.documentElement.dataset.theme;
    button.textContent = tr`Theme: ${tr(THEMES[now])}`;
    tell("themed");
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => tell("themed"));
}

buildTheme();
buildHeader();
buildVerdicts();
buildCoverage();
buildFindings();
buildSampled();
buildFilters();
buildTree();
buildTable();
buildDetails();
state.shown = Uint32Array.from({ length: ROWS }, (_, row) => row);
buildChart();
applyFilter();
document.documentElement.dataset.ready = "yes";
