// torch/csrc/distributed/c10d/ProcessGroupGloo.hpp includes this file of gloo, which the wheel does not
// bring. Of what stands in it that header needs no more than this.
#pragma once
