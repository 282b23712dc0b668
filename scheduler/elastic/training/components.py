"""What a State is made of, and what it can go back to. Standard library only."""

from collections.abc import Iterable
from typing import Any

from scheduler.elastic.errors import UsageError
from scheduler.elastic.training.arguments import shown

#: What each of the arguments that have a meaning of their own must have, and what it is.
_REQUIRED = {
    "model": (("state_dict", "load_state_dict"), "a torch.nn.Module"),
    "optimizer": (("state_dict", "load_state_dict", "register_step_pre_hook"), "a torch.optim.Optimizer"),
    "lr_scheduler": (("state_dict", "load_state_dict"), "a schedule of torch.optim.lr_scheduler"),
    "sampler": (("state_dict", "load_state_dict", "policy"), "an ElasticDistributedSampler"),
}


def require_component(name: str, value: Any) -> None:
    """Raises `UsageError` for an argument of State that cannot be kept, or not followed."""
    attributes, kind = _REQUIRED[name]
    if isinstance(value, type) or not all(hasattr(value, attribute) for attribute in attributes):
        raise UsageError(
            f"{name} of State must be {kind}, not {shown(value)}: of several, pass each by a name of its own, "
            f"as in State({name}_a=..., {name}_b=...)"
        )


def require_state(tree: Any, components: Iterable[str]) -> None:
    """Raises `UsageError` for what is not the state of such a training."""
    if not (isinstance(tree, dict) and tree.keys() >= {"step", "epoch", "components", "values"}):
        raise UsageError(f"the checkpoint holds no state of a training, but {shown(tree)}: remove it to begin anew")
    kept = tree["components"]
    if missing := [name for name in components if name not in kept]:
        raise UsageError(
            f"the state that was kept has no {' and no '.join(missing)}, only {', '.join(kept) or 'values'}: "
            "go on with the script that wrote it, or remove its checkpoints to begin anew"
        )
