"""Runs the server from wherever its files are: `python -m kueue_flux.restful`, or `python DIR` of a mounted DIR.

Run from a directory, Python puts that directory first on the module path, where `jobs.py` and the like would hide
other people's modules of that name: it is taken off again, and the files become a package under a name of their own.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

if not __package__:
    _here = Path(__file__).absolute().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).absolute() != _here]
    _spec = importlib.util.spec_from_file_location(
        "kueue_flux_restful", str(_here / "__init__.py"), submodule_search_locations=[str(_here)]
    )
    if _spec is None or _spec.loader is None:
        sys.exit(f"kueue-flux restful: CRITICAL: cannot start: the files in {_here} are no package")
    _package = importlib.util.module_from_spec(_spec)
    __package__ = _spec.name
    sys.modules[__package__] = _package
    _spec.loader.exec_module(_package)

if __name__ == "__main__":
    sys.exit(importlib.import_module(__package__ + ".main").main())
