// Reads an op's schema: what each argument is, what it writes, and which row lowers it.
#include <algorithm>

#include "tpubridge/device/check_indices.h"

namespace tpubridge::device {
namespace {

using c10::TypeKind;

Kind kind_of(const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::OptionalType:
      return kind_of(type->castRaw<c10::OptionalType>()->getElementType());
    case TypeKind::TensorType:
      return Kind::tensor;
    case TypeKind::NumberType:
      return Kind::scalar;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return Kind::integer;
    case TypeKind::FloatType:
      return Kind::number;
    case TypeKind::BoolType:
      return Kind::boolean;
    case TypeKind::StringType:
      return Kind::text;
    case TypeKind::ScalarTypeType:
      return Kind::dtype;
    case TypeKind::GeneratorType:
      return Kind::generator;
    case TypeKind::DeviceObjType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return Kind::ignored;
    case TypeKind::ListType: {
      switch (kind_of(type->castRaw<c10::ListType>()->getElementType())) {
        case Kind::tensor:
          return Kind::tensors;
        case Kind::integer:
        case Kind::boolean:
          return Kind::integers;
        case Kind::number:
          return Kind::numbers;
        default:
          return Kind::other;
      }
    }
    default:
      return Kind::other;
  }
}

bool same_arguments(const c10::FunctionSchema& a, size_t count, const c10::FunctionSchema& b) {
  if (b.arguments().size() != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (a.arguments()[i].name() != b.arguments()[i].name() ||
        *a.arguments()[i].real_type() != *b.arguments()[i].real_type())
      return false;
  return true;
}

std::string row_name(const c10::FunctionSchema& s) {
  const std::string base = s.name().substr(s.name().find("::") + 2);
  return s.overload_name().empty() ? base : base + "." + s.overload_name();
}

// The row of the functional overload with the same arguments: of `add` for `add_` and for `add.out`.
const lower::Row* twin_row(const c10::FunctionSchema& schema, size_t count) {
  std::string base = schema.name();
  if (base.back() == '_' && base[base.size() - 2] != '_') base.pop_back();
  const std::string prefix = base.substr(base.find("::") + 2);
  const auto& rows = lower::all_rows();
  const auto first = std::lower_bound(rows.begin(), rows.end(), prefix,
                                      [](const lower::Row* r, const std::string& p) { return r->name < p; });
  for (auto it = first; it != rows.end() && (*it)->name.starts_with(prefix); ++it) {
    const lower::Row* row = *it;
    const auto dot = row->name.find('.');
    if (row->name.substr(0, dot) != prefix) continue;
    const std::string overload(dot == row->name.npos ? "" : row->name.substr(dot + 1));
    const auto found = c10::Dispatcher::singleton().findSchema({base, overload});
    if (found && same_arguments(schema, count, found->schema())) return row;
  }
  return nullptr;
}

}  // namespace

bool has_meta(const c10::OperatorHandle& op) {
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::Meta) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

OpInfo describe(const c10::OperatorHandle& op, const lower::Row* row) {
  OpInfo info;
  const auto& schema = op.schema();
  const auto& args = schema.arguments();
  info.schema = &schema;
  info.row_args = args.size();
  bool lists_written = false;
  for (size_t i = 0; i < args.size(); ++i) {
    info.kinds.push_back(kind_of(args[i].real_type()));
    const auto* alias = args[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    info.written.push_back(i);
    lists_written |= info.kinds.back() != Kind::tensor;
    if (args[i].is_out()) {
      info.row_args = std::min(info.row_args, i);
      info.resizes = true;
    }
  }
  info.row = row ? row : lower::find(row_name(schema));
  if (!info.row && !info.written.empty()) info.row = twin_row(schema, info.row_args);
  if (info.row) info.indices = index_rule(info.row->name);
  // Without a Meta kernel the row must know the shapes itself.
  const bool shapes_known = info.row && (info.row->shape || info.row->custom || has_meta(op));
  info.traceable = shapes_known && !lists_written;
  for (size_t i = 0; i < info.row_args; ++i) info.traceable &= info.kinds[i] != Kind::other;
  // What is written must be what is returned.
  info.traceable &= info.written.empty() || info.written.size() == schema.returns().size();
  for (const auto& r : schema.returns()) info.traceable &= kind_of(r.type()) == Kind::tensor;
  return info;
}

}  // namespace tpubridge::device
