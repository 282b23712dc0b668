"""Pages of the documentation that are made from the code: `python -m docs.generate` writes them, tests compare them.

Nothing of the product imports this package. It reads settings, commands, routes, metrics, enumerations and figures
where they are declared.
"""
