// From named tensors to the inputs of a program.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tpubridge/base/text.h"
#include "tpubridge/package/runner.h"

namespace tpubridge::package {
namespace {

[[noreturn]] void wrong_input(const Package& package, const std::string& what, const std::string& input) {
  throw ArgumentError(what, {{"input", input}, {"takes", package.signature()}},
                      "Inputs have the names of the signature, or arg0, arg1, … in its order.",
                      Code::invalid_argument);
}

std::string names_of(const std::vector<Tensor>& tensors) {
  std::string out;
  for (const Tensor& t : tensors) out += (out.empty() ? "" : ", ") + t.name;
  return out.empty() ? "nothing" : out;
}

// The place of a name; arg2 is the third where nothing has that name itself.
std::optional<size_t> place_of(const std::vector<Tensor>& inputs, std::string_view name) {
  const auto at = std::ranges::find(inputs, name, &Tensor::name);
  if (at != inputs.end()) return static_cast<size_t>(at - inputs.begin());
  if (!name.starts_with("arg")) return std::nullopt;
  size_t place = 0;
  const char *begin = name.data() + 3, *end = name.data() + name.size();
  const auto [stop, failed] = std::from_chars(begin, end, place);
  return failed == std::errc() && stop == end && place < inputs.size() ? std::optional(place) : std::nullopt;
}

}  // namespace

Bound bind_inputs(const Package& package, std::span<const HostTensor> given) {
  const auto& programs = package.manifest().programs;
  const std::vector<Tensor>& wanted = programs[0].inputs;
  std::vector<const HostTensor*> found(wanted.size());
  for (const HostTensor& t : given) {
    const auto place = place_of(wanted, t.name);
    if (!place)
      wrong_input(package,
                  fmt::format("the package has no input {}; it takes {}", quote(t.name), names_of(wanted)),
                  t.name);
    const Tensor& want = wanted[*place];
    if (found[*place]) wrong_input(package, fmt::format("input {} is given twice", want.name), want.name);
    if (t.shape.dtype != want.shape.dtype)
      wrong_input(package,
                  fmt::format("input {} is {}, the package takes {}", want.name, t.shape.str(),
                              name(want.shape.dtype)),
                  want.name);
    (void)t.bytes();  // throws where there are none
    found[*place] = &t;
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!found[i]) wrong_input(package, fmt::format("input {} is missing", wanted[i].name), wanted[i].name);
  for (size_t p = 0; p < programs.size(); ++p) {
    Bound out{p, {}};
    for (size_t i = 0; i < wanted.size() && found[i]->shape == programs[p].inputs[i].shape; ++i)
      out.inputs.push_back(*found[i]);
    if (out.inputs.size() == wanted.size()) return out;
  }
  // Name the input that fits nowhere; where each fits somewhere, it is their shapes together.
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto fits = [&](const Program& p) { return p.inputs[i].shape == found[i]->shape; };
    if (std::ranges::none_of(programs, fits))
      wrong_input(package,
                  fmt::format("input {} is {}; the package was made for {}", wanted[i].name,
                              found[i]->shape.str(), package.signature()),
                  wanted[i].name);
  }
  wrong_input(package,
              fmt::format("no program takes these shapes together; there are: {}", package.signature()),
              names_of(wanted));
}

}  // namespace tpubridge::package
