"""tpubridge.load: what torch.export.save wrote, as a module."""
import os

import torch

from tpubridge import _C, errors


class LoadedModule(torch.nn.Module):
    """A model of a .pt2 file, run by tpubridge's own reader: no pickle is read. Parameters and buffers have their names;
    autograd, optimizers, state_dict() and to() work as for any module. Arguments as they were exported, by place or name.
    """

    def __init__(self, path):
        super().__init__()
        object.__setattr__(self, "_exported", _C.Exported(os.fspath(path)))
        self._take_over()
        self.training = self._exported.training()

    def _take_over(self):
        """The module's tensors, under their names, in modules that hold them."""
        self._held = []  # (name, the module that holds it, its name there, tensor)
        for names, add in ((self._exported.parameters(), self._add_parameter), (self._exported.buffers(), self._add_buffer)):
            for name, tensor in names:
                *folders, leaf = name.split(".")
                owner = self
                for folder in folders:
                    if folder not in owner._modules:
                        owner.add_module(folder, torch.nn.Module())
                    owner = owner._modules[folder]
                add(owner, leaf, tensor)
                self._held.append((name, owner, leaf, tensor))

    @staticmethod
    def _add_parameter(owner, name, tensor):
        tensor._is_param = True  # the same object as in C++: a Parameter would be another
        owner._parameters[name] = tensor

    @staticmethod
    def _add_buffer(owner, name, tensor):
        owner._buffers[name] = tensor

    def _check_held(self):
        """C++ computes with the tensors that it has: another one under a name would count for nothing."""
        for name, owner, leaf, tensor in self._held:
            if (owner._parameters if leaf in owner._parameters else owner._buffers).get(leaf) is not tensor:
                raise errors.UnsupportedError(
                    f"the tensor {name} of a loaded model was replaced or taken out, which forward() would not see",
                    None, {"name": name},
                    "Write into it (copy_, load_state_dict() without assign=True), and move the whole model with to().",
                )

    def forward(self, *args, **kwargs):
        self._check_held()
        return self._exported.call(*args, **kwargs)

    @property
    def input_names(self):
        return self._exported.input_names()

    @property
    def output_names(self):
        return self._exported.output_names()

    def train(self, mode=True):
        """Until it is called, dropout and batch norm do what they did when the model was exported."""
        super().train(mode)
        self._exported.train(mode)
        return self

    def _apply(self, fn, recurse=True):
        # What to(), half(), tpu(), … do to a tensor says what is to be done.
        probe = next(iter([*self.parameters(), *self.buffers()]), torch.empty(0)).detach()
        probe = torch.empty(0, dtype=probe.dtype if probe.is_floating_point() else torch.float32, device=probe.device)
        made, other = fn(probe), fn(probe.to(torch.bfloat16 if probe.dtype != torch.bfloat16 else torch.float32))
        if not isinstance(made, torch.Tensor) or made.is_meta:
            raise errors.UnsupportedError("a loaded model can be moved to a device and to a type, and nothing else")
        device = made.device if made.device != probe.device else None
        # A type is asked for where what had different ones has the same: the others may need it though the first has it.
        dtype = made.dtype if made.dtype == other.dtype else None
        self._exported.to(device, dtype)
        return self

    def save(self, path):
        """The same export with the weights as they are now: for torch.export.load and tpubridge.load."""
        self._exported.save(os.fspath(path))

    def __deepcopy__(self, memo):
        raise errors.UnsupportedError(
            "a loaded model cannot be copied", hint="Load the file once more, and load_state_dict() the weights."
        )

    def __reduce_ex__(self, protocol):
        raise errors.UnsupportedError("a loaded model cannot be pickled", hint="save() writes it; keep its state_dict().")

    def extra_repr(self):
        return f"inputs: {', '.join(self.input_names)}; outputs: {', '.join(self.output_names)}"


def load(path):
    """A .pt2 file (torch.export.save) as a module. Raises FileError for a file that is damaged or no export, and
    UnsupportedError for a version or an op that is not known."""
    return LoadedModule(path)
