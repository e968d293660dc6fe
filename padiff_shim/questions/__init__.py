"""Questions about whole programs and models: thin fronts over the rooms below."""
