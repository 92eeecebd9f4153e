"""The commands that belong to no room: they find what they work on in all of them."""

COMMANDS = {
    "train": ("akorn.cli.train", "train a model by a recipe"),
    "export": ("akorn.cli.export", "take a model out of Python as one file, or out of a run that is not finished"),
    "eval": ("akorn.cli.eval", "score a model"),
    "recipes": ("akorn.cli.recipes", "list what can be trained"),
    "models": ("akorn.cli.models", "list the models that ship, and what can be built by name"),
    "data": ("akorn.cli.data", "make data sets that need no download"),
    "results": ("akorn.cli.results", "render RESULTS.md from the records of all runs"),
}
