"""What a result says, as one tree, and three renderers of it: text for a terminal, Markdown, and a page."""
