// tpubridge._C: what Python needs of the library beyond torch's own functions.
#include "scopes.h"

PYBIND11_MODULE(_C, m) {
  using namespace tpubridge::python;
  bind_errors();
  bind_device(m);
  bind_steps(m);
  bind_load(m);
  bind_export(m);
}
