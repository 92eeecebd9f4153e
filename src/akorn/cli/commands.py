"""The commands that belong to no room: they work with models, data and recipes of all of them."""

COMMANDS = {
    "train": ("akorn.cli.train", "train a model with a recipe"),
    "export": ("akorn.cli.export", "export a model as one file, or the model of an unfinished run"),
    "eval": ("akorn.cli.eval", "score a model"),
    "curves": ("akorn.cli.curves", "draw the loss of several runs in one plot"),
    "recipes": ("akorn.cli.recipes", "list the recipes for training"),
    "models": ("akorn.cli.models", "list the models that ship, and what can be built by name"),
    "data": ("akorn.cli.data", "make data sets that need no download"),
    "results": ("akorn.cli.results", "show the records of your runs and evaluations as tables"),
}
