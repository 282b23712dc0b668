"""How answers look: tables, plots, pictures and words. Nothing here asks the daemon."""
