"""What LoadedModule.Saves wrote, read by torch: KEEP_SAVED=FOLDER test_load --gtest_filter=LoadedModule.Saves, then
python check_saved.py FOLDER. Parameters are 1.5 times those of the export, everything else is as it was."""
import pathlib
import sys

import torch

DATA = pathlib.Path(__file__).parent.parent / "data" / "pt2"
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.pt2")):
    saved, made = torch.export.load(file), torch.export.load(DATA / file.name)
    parameters = dict(made.named_parameters())
    for name, tensor in made.state_dict.items():
        want = tensor * 1.5 if name in parameters else tensor
        assert torch.allclose(saved.state_dict[name], want), (file, name)
    assert saved.constants.keys() == made.constants.keys(), file
    saved.module()
    print(file.name, "is read again")
