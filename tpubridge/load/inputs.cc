#include "tpubridge/load/inputs.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"
#include "tpubridge/load/prepared.h"
#include "tpubridge/pt2/archive.h"

namespace tpubridge::exported {
namespace {

using c10::IValue;

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return join(views);
}

bool same_constant(const Arg& fixed, const IValue& given) {
  switch (fixed.kind) {
    case ArgKind::none:
      return given.isNone();
    case ArgKind::integer:
      return given.isInt() && given.toInt() == fixed.number;
    case ArgKind::boolean:
      return given.isBool() && given.toBool() == (fixed.number != 0);
    case ArgKind::real:
      return given.isDouble() && given.toDouble() == fixed.real;
    case ArgKind::text:
      return given.isString() && given.toStringRef() == fixed.text;
    default:
      return false;
  }
}
IValue constant_value(const Arg& fixed) {
  const Context context{at::kCPU};
  std::vector<IValue> out;
  values_of(fixed, {context, {}}, out);
  return out.size() == 1 ? out.front() : IValue();
}

[[noreturn]] void misfit(const std::string& name, const std::string& what, const std::string& hint = "") {
  throw ArgumentError("input " + name + ": " + what, {{"input", name}}, hint, Code::invalid_argument);
}

// Takes a value apart as the tree says.
void walk(const TreeSpec& tree, const IValue& value, const std::string& name, auto&& leaf) {
  if (tree.kind == TreeSpec::Kind::leaf) return leaf(value);
  const size_t n = tree.children.size();
  const auto child = [&](size_t i, const IValue& v) {
    walk(tree.children[i], v,
         name + "." + (tree.kind == TreeSpec::Kind::dict ? tree.keys[i] : std::to_string(i)), leaf);
  };
  if (tree.kind == TreeSpec::Kind::dict && value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    if (dict.size() != n)
      misfit(name, "a dict of " + std::to_string(dict.size()) + " members; it has " + listed(tree.keys));
    for (size_t i = 0; i < n; ++i) {
      const auto at = dict.find(IValue(tree.keys[i]));
      if (at == dict.end()) misfit(name, "the member " + tree.keys[i] + " is missing");
      child(i, at->value());
    }
    return;
  }
  if (!value.isTuple() && !value.isList())
    misfit(name,
           tree.kind == TreeSpec::Kind::dict ? "a dict with " + listed(tree.keys) + " is wanted"
                                             : "a tuple or list of " + std::to_string(n) + " is wanted",
           "Its leaves may also be given one by one: " + listed(tree.names(name)));
  const std::vector<IValue> items =
      value.isTuple() ? value.toTupleRef().elements().vec() : value.toListRef().vec();
  if (items.size() != n)
    misfit(name, std::to_string(items.size()) + " values instead of " + std::to_string(n));
  for (size_t i = 0; i < n; ++i) child(i, items[i]);
}

class SizeCheck {
 public:
  SizeCheck(const Program& program, const std::vector<std::string>& names)
      : program_(program), names_(names) {}

  // From now on a symbol that no size is by itself is read off what is made of it: 2*s, s + 1.
  void derive() { derive_ = true; }

  void tensor(size_t leaf, const TensorMeta& want, const at::Tensor& given) {
    const std::string& name = names_[leaf];
    if (!given.defined()) misfit(name, "the tensor is not defined");
    const auto type = torch_dtype(want.dtype);
    // Floats of another width come with a module that was converted.
    if (type && *type != given.scalar_type() && !(at::isFloatingType(*type) && given.is_floating_point()))
      misfit(name, "its element type is " + std::string(at::toString(given.scalar_type())) +
                       ", the model takes " + dtype_name(want.dtype));
    if (given.dim() != static_cast<int64_t>(want.sizes.size()))
      misfit(name, "it has " + std::to_string(given.dim()) + " dimensions, the model takes " +
                       std::to_string(want.sizes.size()));
    for (size_t d = 0; d < want.sizes.size(); ++d)
      size(want.sizes[d], given.size(static_cast<int64_t>(d)), name + ", dimension " + std::to_string(d),
           name);
  }

  // A size of the caller against what the export says. Expressions of several symbols wait for the second
  // pass.
  void size(const SizeExpr& want, int64_t given, const std::string& where, const std::string& input) {
    if (want.op == SizeExpr::Op::symbol && !symbols_.contains(want.symbol)) {
      symbols_[want.symbol] = given;
      first_[want.symbol] = where;
      if (const auto range = program_.ranges.find(want.symbol); range != program_.ranges.end())
        in_range(want.symbol, range->second, given, where, input);
      return;
    }
    const auto value = want.value(symbols_);
    if (!value && derive_) solve(want, given, where, input);
    if (!value || *value == given) return;
    std::string why;
    if (want.op == SizeExpr::Op::symbol)
      why = " as in " + first_[want.symbol] + " (" + want.symbol + ")";
    else if (want.op != SizeExpr::Op::number)
      why = " (" + want.text() + ")";
    misfit(input, where + " must be " + std::to_string(*value) + why + ", got " + std::to_string(given));
  }

 private:
  void solve(const SizeExpr& want, int64_t given, const std::string& where, const std::string& input) {
    if (want.terms.size() != 2) return;
    const bool first = want.terms[0].op == SizeExpr::Op::number;
    const SizeExpr &number = want.terms[first ? 0 : 1], &rest = want.terms[first ? 1 : 0];
    if (number.op != SizeExpr::Op::number) return;
    const int64_t n = number.number;
    int64_t less = 0;
    if (want.op == SizeExpr::Op::mul && n > 0) {
      if (given % n != 0)
        misfit(input, where + " must be a multiple of " + std::to_string(n) + " (" + want.text() + "), got " +
                          std::to_string(given));
      size(rest, given / n, where + " divided by " + std::to_string(n), input);
    } else if (want.op == SizeExpr::Op::add && !__builtin_sub_overflow(given, n, &less)) {
      size(rest, less, where + " less " + std::to_string(n), input);
    }
  }
  void in_range(const std::string& symbol, const Range& range, int64_t given, const std::string& where,
                const std::string& input) const {
    if (given >= range.least && given <= range.most) return;
    const std::string most = range.most == INT64_MAX ? "" : std::to_string(range.most);
    const std::string span = most.empty() ? "at least " + std::to_string(range.least)
                                          : "in " + std::to_string(range.least) + ".." + most;
    misfit(input, where + " (" + symbol + ") must be " + span + ", got " + std::to_string(given),
           "Export the model with a wider range: torch.export.Dim(name, min=…, max=…).");
  }

  const Program& program_;
  const std::vector<std::string>& names_;
  std::map<std::string, int64_t> symbols_;
  std::map<std::string, std::string> first_;
  bool derive_ = false;
};

}  // namespace

Arguments::Arguments(const Program& program) {
  const auto add = [&](std::string name, const TreeSpec& tree) {
    arguments_.push_back({name, &tree, names_.size()});
    for (auto& leaf : tree.names(name)) names_.push_back(std::move(leaf));
  };
  const TreeSpec &places = program.in_tree.children[0], &named = program.in_tree.children[1];
  for (size_t i = 0; i < places.children.size(); ++i)
    add(i < program.argument_names.size() ? program.argument_names[i] : "arg" + std::to_string(i),
        places.children[i]);
  for (size_t i = 0; i < named.children.size(); ++i) add(named.keys[i], named.children[i]);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const InputSpec& spec = program.inputs[i];
    if (spec.kind == InputKind::fixed) fixed_.push_back(&spec.value);
    // What the graph takes no value for is None.
    if (spec.kind == InputKind::user)
      fixed_.push_back(program.graph.inputs[i].kind == ArgKind::value ? nullptr : &program.graph.inputs[i]);
  }
}

void Arguments::take(const Argument& argument, const IValue& value,
                     std::vector<std::optional<IValue>>& leaves) const {
  size_t next = argument.first;
  walk(*argument.tree, value, argument.name, [&](const IValue& v) {
    if (leaves[next]) misfit(names_[next], "it is given twice");
    leaves[next++] = v;
  });
}

std::vector<IValue> Arguments::flatten(const std::vector<IValue>& places,
                                       const std::map<std::string, IValue>& named) const {
  std::vector<std::optional<IValue>> leaves(names_.size());
  if (places.size() > arguments_.size())
    throw ArgumentError(std::to_string(places.size()) + " arguments are given, the model takes " +
                        std::to_string(arguments_.size()) + ": " + listed(names_));
  for (size_t i = 0; i < places.size(); ++i) take(arguments_[i], places[i], leaves);
  for (const auto& [name, value] : named) {
    if (const auto whole = std::ranges::find(arguments_, name, &Argument::name); whole != arguments_.end()) {
      take(*whole, value, leaves);
      continue;
    }
    const auto leaf = std::ranges::find(names_, name);
    if (leaf == names_.end()) {
      const std::vector<std::string_view> views(names_.begin(), names_.end());
      misfit(name, "the model has no input of this name; it takes " + listed(names_),
             "Did you mean " + std::string(nearest(name, views)) + "?");
    }
    auto& place = leaves[static_cast<size_t>(leaf - names_.begin())];
    if (place) misfit(name, "it is given twice");
    place = value;
  }
  std::vector<IValue> out;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (fixed_[i] != nullptr) {
      if (leaves[i] && !same_constant(*fixed_[i], *leaves[i]))
        misfit(names_[i], "the model was exported with one value of it, and this is another");
      out.push_back(constant_value(*fixed_[i]));
    } else {
      if (!leaves[i]) misfit(names_[i], "it is missing; the model takes " + listed(names_));
      out.push_back(std::move(*leaves[i]));
    }
  }
  return out;
}

void check_inputs(const Program& program, const std::vector<std::string>& names,
                  const std::vector<IValue>& leaves) {
  SizeCheck check(program, names);
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) check.derive();
    size_t leaf = 0;
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      const auto kind = program.inputs[i].kind;
      if (kind != InputKind::user && kind != InputKind::fixed) continue;
      const size_t at = leaf++;
      if (kind == InputKind::fixed || program.graph.inputs[i].kind != ArgKind::value) continue;
      const auto meta =
          program.metas.find(program.graph.names[static_cast<size_t>(program.graph.inputs[i].slot)]);
      if (meta == program.metas.end()) {
        if (!leaves[at].isScalar()) misfit(names[at], "a number is wanted");
        continue;
      }
      if (!leaves[at].isTensor()) misfit(names[at], "a tensor is wanted, got " + leaves[at].tagKind());
      check.tensor(at, meta->second, leaves[at].toTensor());
    }
  }
}

IValue tree_value(const TreeSpec& tree, const std::vector<IValue>& leaves, size_t& next) {
  if (tree.kind == TreeSpec::Kind::leaf) return leaves[next++];
  std::vector<IValue> items;
  for (const auto& child : tree.children) items.push_back(tree_value(child, leaves, next));
  if (tree.kind == TreeSpec::Kind::dict) {
    c10::impl::GenericDict out(c10::StringType::get(), c10::AnyType::get());
    for (size_t i = 0; i < items.size(); ++i) out.insert(IValue(tree.keys[i]), std::move(items[i]));
    return out;
  }
  if (!tree.is_list) return c10::ivalue::Tuple::create(std::move(items));
  c10::impl::GenericList out(c10::AnyType::get());
  for (auto& item : items) out.push_back(std::move(item));
  return out;
}

}  // namespace tpubridge::exported
