"""Scikit-learn's handwritten digits for the models of the zoo."""

from functools import lru_cache

from digits_data import load_data

cached = lru_cache(maxsize=None)(load_data)


def labelled(rng, count):
    """So many images [count, 1, 8, 8], 0 to 1, and their labels."""
    data = cached()
    chosen = rng.integers(0, len(data.train_images), count)
    return data.train_images[chosen][:, None].astype("float64"), data.train_labels[chosen]


def images(rng, count):
    """Images alone."""
    return labelled(rng, count)[0]
