#include "tpubridge/mesh/distribute.h"

#include <iomanip>
#include <map>
#include <sstream>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/mesh/layout.h"

namespace tpubridge {
namespace {

constexpr const char* kName = "distribute";

bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, after = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// The rule of each parameter that has one.
std::map<std::string, const Rule*> rules_of(const torch::nn::Module& model, const Rules& rules) {
  std::map<std::string, const Rule*> out;
  for (const Rule& rule : rules) {
    bool any = false;
    for (const auto& p : model.named_parameters()) {
      if (!matches(rule.pattern, p.key())) continue;
      any = true;
      if (const auto [it, added] = out.emplace(p.key(), &rule); !added)
        throw distributed_error(kName,
                                "two rules name the parameter '" + p.key() + "': '" + it->second->pattern +
                                    "' and '" + rule.pattern + "'",
                                "Give each parameter one rule.");
    }
    if (!any)
      throw distributed_error(kName, "the rule '" + rule.pattern + "' names no parameter",
                              "named_parameters() of the model has their names.");
  }
  return out;
}

PlannedTensor planned(const std::string& name, const at::Tensor& t, const Mesh& mesh, const Split& split) {
  try {
    const exec::Layout layout = mesh::layout_over(kName, t.sizes(), mesh, split);
    int64_t parts = 1;
    for (size_t d = 0; d < layout.dims.size(); ++d) parts *= layout.tiles(d);
    const auto bytes = static_cast<int64_t>(t.nbytes());
    return {name, t.sizes().vec(), mesh::split_of(layout), bytes, bytes / parts};
  } catch (TPUBackendError& e) {
    e.add({{"parameter", name}});
    throw;
  }
}

}  // namespace

MeshPlan plan_for(const torch::nn::Module& model, const Mesh& mesh, const Rules& rules) {
  const auto by_name = rules_of(model, rules);
  MeshPlan out{mesh, {}};
  std::map<const void*, size_t> seen;  // tied ones are one tensor
  const auto add = [&](const std::string& name, const at::Tensor& t, const Split& split) {
    PlannedTensor one = planned(name, t, mesh, split);
    if (const auto [it, added] = seen.emplace(t.unsafeGetTensorImpl(), out.tensors.size()); !added) {
      const PlannedTensor& first = out.tensors[it->second];
      if (first.split != one.split)
        throw distributed_error(
            kName, "'" + first.name + "' and '" + name + "' are one tensor, and split differently");
      return;
    }
    out.bytes += one.bytes;
    out.bytes_on_each += one.bytes_on_each;
    out.tensors.push_back(std::move(one));
  };
  for (const auto& p : model.named_parameters()) {
    const auto rule = by_name.find(p.key());
    if (p.value().defined()) add(p.key(), p.value(), rule == by_name.end() ? Split{} : rule->second->split);
  }
  for (const auto& b : model.named_buffers())
    if (b.value().defined()) add(b.key(), b.value(), {});
  return out;
}

MeshPlan distribute(torch::nn::Module& model, const Mesh& mesh, const Rules& rules) {
  MeshPlan plan = plan_for(model, mesh, rules);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& p : model.named_parameters()) tensors.emplace(p.key(), p.value());
  for (const auto& b : model.named_buffers()) tensors.emplace(b.key(), b.value());
  for (const PlannedTensor& t : plan.tensors) {
    at::Tensor& tensor = tensors.at(t.name);
    const at::Tensor gradient = tensor.grad();
    shard_(tensor, mesh, t.split);
    if (gradient.defined()) tensor.mutable_grad() = shard(gradient.detach(), mesh, t.split);
  }
  return plan;
}

Rules fsdp(const torch::nn::Module& model, const Mesh& mesh, const std::string& axis, const Rules& rules) {
  const int64_t parts = mesh.size(axis);
  const auto by_name = rules_of(model, rules);
  Rules out;
  for (const auto& p : model.named_parameters()) {
    if (!p.value().defined()) continue;
    const auto rule = by_name.find(p.key());
    Split split = rule == by_name.end() ? Split() : rule->second->split;
    split.resize(std::max<size_t>(split.size(), static_cast<size_t>(p.value().dim())), none);
    int64_t best = -1;
    for (int64_t d = 0; d < p.value().dim(); ++d) {
      const int64_t size = p.value().size(d);
      if (split[static_cast<size_t>(d)].axes.empty() && size % parts == 0 && size > 0 &&
          (best < 0 || size > p.value().size(best)))
        best = d;
    }
    if (best >= 0) split[static_cast<size_t>(best)] = SplitBy(axis);
    if (best >= 0 || rule != by_name.end()) out.push_back({p.key(), std::move(split)});
  }
  return out;
}

std::string MeshPlan::str() const {
  size_t width = 4;
  for (const auto& t : tensors) width = std::max(width, t.name.size());
  std::ostringstream out;
  const auto row = [&](const std::string& name, const std::string& sizes, const std::string& split,
                       const std::string& all, const std::string& each) {
    out << std::left << std::setw(static_cast<int>(width) + 2) << name << std::setw(20) << sizes
        << std::setw(24) << split << std::right << std::setw(14) << all << std::setw(14) << each << "\n";
  };
  out << "mesh " << mesh.str() << " over " << mesh.devices().size() << " devices\n";
  row("name", "sizes", "split", "bytes", "on each");
  for (const auto& t : tensors) {
    std::string sizes = "[";
    for (size_t d = 0; d < t.sizes.size(); ++d) sizes += (d ? ", " : "") + std::to_string(t.sizes[d]);
    row(t.name, sizes + "]", mesh::split_text(t.split), std::to_string(t.bytes),
        std::to_string(t.bytes_on_each));
  }
  row("all", "", "", std::to_string(bytes), std::to_string(bytes_on_each));
  return out.str();
}

}  // namespace tpubridge
