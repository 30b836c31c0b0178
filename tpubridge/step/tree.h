// Arguments and results of compiled steps: tensors inside vectors, arrays, maps, tuples, pairs, optionals and
// structs.
//
// A struct takes part by a function beside it that names its fields:
//   auto tpubridge_fields(Batch& b) { return std::tie(b.images, b.labels); }
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpubridge::tree {

template <class T>
concept Struct = requires(T& v) {
  tpubridge_fields(v);
};
template <class T>
concept Tuple = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept Map = requires(T& v) {
  typename T::key_type;
  typename T::mapped_type;
  v.begin();
};
template <class T>
concept List = requires(T& v) {
  v.begin();
  v.size();
}
&&!Map<T> && !std::is_same_v<T, std::string> && !Tuple<T>;
template <class T>
concept Optional = requires(T& v) {
  v.has_value();
  *v;
};
template <class T>
concept Number = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Calls `tensor(at::Tensor&)` for each tensor in order, and `other(uint64_t)` for everything else that the
// shape of the whole depends on: sizes of containers, keys, numbers.
template <class T, class OnTensor, class OnOther>
void visit(T& v, OnTensor& tensor, OnOther& other) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, at::Tensor>) {
    tensor(v);
  } else if constexpr (Struct<U>) {
    std::apply([&](auto&... field) { (visit(field, tensor, other), ...); },
               tpubridge_fields(const_cast<U&>(v)));
  } else if constexpr (std::is_same_v<U, std::string>) {
    other(std::hash<std::string>()(v));
  } else if constexpr (Number<U>) {
    uint64_t bits = 0;
    std::memcpy(&bits, &v, std::min(sizeof(v), sizeof(bits)));
    other(bits);
  } else if constexpr (Tuple<U> && !List<U>) {
    std::apply([&](auto&... item) { (visit(item, tensor, other), ...); }, v);
  } else if constexpr (Optional<U>) {
    other(v.has_value());
    if (v) visit(*v, tensor, other);
  } else if constexpr (Map<U>) {
    other(v.size());
    for (auto& [key, item] : v) {
      visit(key, tensor, other);
      visit(item, tensor, other);
    }
  } else if constexpr (List<U>) {
    other(v.size());
    for (auto& item : v) visit(item, tensor, other);
  } else {
    static_assert(Struct<U>,
                  "give this type a function tpubridge_fields(T&) that returns std::tie of its members");
  }
}

}  // namespace tpubridge::tree
