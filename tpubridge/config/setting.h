// A value of the configuration that knows who gave it, so that what the user set is never overwritten.
//
//   config.memory_fraction = 0.8;                         // from now on the user's
//   TPUConfig c{.version = TPUVersion::v5p};              // this too
//   double f = config.memory_fraction;                    // reads like a plain value
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace tpubridge {

// Who gave a value; each wins over those before it.
enum class Origin : uint8_t { standard, detected, mode, user };

namespace detail {

template <class T>
struct Standard {
  T value;
};
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

// What may be assigned: no text to a flag, no flag to a number.
template <class U, class T>
consteval bool fits() {
  using V = std::remove_cvref_t<U>;
  if constexpr (std::same_as<T, std::string>)
    return std::is_convertible_v<V, std::string>;
  else if constexpr (std::same_as<T, bool> || std::is_enum_v<T>)
    return std::same_as<V, T>;
  else if constexpr (is_optional<T>)
    return std::same_as<V, std::nullopt_t> || std::same_as<V, T> ||
           (std::is_arithmetic_v<V> && !std::same_as<V, bool>);
  else if constexpr (std::integral<T>)
    return std::integral<V> && !std::same_as<V, bool>;
  else
    return std::is_arithmetic_v<V> && !std::same_as<V, bool>;
}

}  // namespace detail

// The value before anybody sets it.
template <class T>
constexpr detail::Standard<T> standard(T value) {
  return {std::move(value)};
}

template <class T>
class Setting {
 public:
  template <class U>
  requires(!std::same_as<std::remove_cvref_t<U>, Setting> && detail::fits<U, T>())
      // Implicit: a setting is written like the value. NOLINTNEXTLINE(google-explicit-constructor)
      constexpr Setting(U&& value)
      : value_(make(std::forward<U>(value))), origin_(Origin::user) {}
  template <class U>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr Setting(detail::Standard<U> s) : value_(std::move(s.value)) {}

  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator const T&() const { return value_; }
  [[nodiscard]] constexpr const T& value() const { return value_; }
  [[nodiscard]] constexpr Origin origin() const { return origin_; }
  [[nodiscard]] constexpr bool is_set() const { return origin_ == Origin::user; }

  // Takes the value unless a stronger origin gave the present one; whether it was taken.
  bool suggest(T value, Origin origin) {
    if (origin < origin_) return false;
    value_ = std::move(value);
    origin_ = origin;
    return true;
  }

  friend constexpr bool operator==(const Setting& a, const Setting& b) { return a.value_ == b.value_; }
  template <class U>
  requires(!std::same_as<U, Setting> && detail::fits<U, T>()) friend constexpr bool operator==(
      const Setting& a, const U& b) {
    return a.value_ == make(b);
  }

 private:
  template <class U>
  static constexpr T make(U&& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<U>> && detail::is_optional<T>)
      return static_cast<typename T::value_type>(value);
    else if constexpr (std::is_arithmetic_v<T>)
      return static_cast<T>(value);
    else
      return T(std::forward<U>(value));
  }

  T value_;
  Origin origin_ = Origin::standard;
};

}  // namespace tpubridge
