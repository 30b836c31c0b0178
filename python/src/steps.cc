// Graphs whose program is known, for the backend of torch.compile: an engine as that of tpubridge::compile,
// with a function of Python in the place of one of C++. What it calls must hang on its arguments alone:
// graphs do.
#include "scopes.h"
#include "tpubridge/step/compile.h"

namespace py = pybind11;

namespace tpubridge::python {
namespace {

class Replayed {
 public:
  explicit Replayed(std::string name)
      : engine_(StepOptions{.host_reads = HostReads::trace, .programs = kPrograms, .name = std::move(name)}) {
  }

  // function(tensors) gives a list of tensors (None: undefined) and an object, which comes back with what is
  // replayed.
  py::tuple call(const py::object& function, const std::vector<at::Tensor>& tensors,
                 const std::vector<uint64_t>& others) {
    std::shared_ptr<void> form;
    std::vector<at::Tensor> results;
    {
      const Cpp scope;
      auto run = [&] {
        const Back python;
        const auto given = function(tensors).cast<py::tuple>();
        form = std::make_shared<Held>(given[1]);
        std::vector<at::Tensor> out;
        for (const auto& t : given[0]) out.push_back(t.is_none() ? at::Tensor() : t.cast<at::Tensor>());
        return out;
      };
      results = engine_.call(tensors, others, run, form);
    }
    py::list out;
    for (auto& t : results) out.append(t.defined() ? py::cast(std::move(t)) : py::none());
    return py::make_tuple(out, static_cast<Held*>(form.get())->get());
  }

  [[nodiscard]] py::dict report() const {
    StepReport r;
    {
      const Cpp scope;
      r = engine_.report();
    }
    py::dict d;
    d["name"] = r.name;
    d["calls"] = r.calls;
    d["replayed"] = r.replayed;
    d["traced"] = r.traced;
    d["programs"] = r.programs;
    d["temporary_bytes"] = r.temporary_bytes;
    d["why_traced"] = r.why_traced;
    return d;
  }

 private:
  static constexpr size_t kPrograms = 32;
  step::Engine engine_;
};

}  // namespace

void bind_steps(py::module_& m) {
  py::class_<Replayed, std::unique_ptr<Replayed>>(m, "Replayed")
      .def(py::init<std::string>())
      .def("call", &Replayed::call)
      .def("report", &Replayed::report);
}

}  // namespace tpubridge::python
