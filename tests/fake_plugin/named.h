// Named values of the C API together with the memory that they point into.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "pjrt_c_api.h"

namespace fake {

class NamedValues {
 public:
  NamedValues() = default;
  NamedValues(const NamedValues&) = delete;  // the values point into it
  NamedValues& operator=(const NamedValues&) = delete;

  void add(std::string name, int64_t value) {
    PJRT_NamedValue& v = next(std::move(name), PJRT_NamedValue_kInt64);
    v.int64_value = value;
    v.value_size = 1;
  }
  void add(std::string name, float value) {
    PJRT_NamedValue& v = next(std::move(name), PJRT_NamedValue_kFloat);
    v.float_value = value;
    v.value_size = 1;
  }
  void add(std::string name, std::string value) {
    PJRT_NamedValue& v = next(std::move(name), PJRT_NamedValue_kString);
    v.string_value = strings_.emplace_back(std::move(value)).c_str();
    v.value_size = strings_.back().size();
  }
  void add(std::string name, std::vector<int64_t> value) {
    PJRT_NamedValue& v = next(std::move(name), PJRT_NamedValue_kInt64List);
    v.int64_array_value = lists_.emplace_back(std::move(value)).data();
    v.value_size = lists_.back().size();
  }
  void add(const PJRT_NamedValue& value) { values_.push_back(value); }  // its memory is another's

  [[nodiscard]] const PJRT_NamedValue* data() const { return values_.data(); }
  [[nodiscard]] size_t size() const { return values_.size(); }

 private:
  PJRT_NamedValue& next(std::string name, PJRT_NamedValue_Type type) {
    const std::string& kept = strings_.emplace_back(std::move(name));
    PJRT_NamedValue& v = values_.emplace_back();
    v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    v.name = kept.c_str();
    v.name_size = kept.size();
    v.type = type;
    return v;
  }
  std::deque<std::string> strings_;
  std::deque<std::vector<int64_t>> lists_;
  std::vector<PJRT_NamedValue> values_;
};

}  // namespace fake
