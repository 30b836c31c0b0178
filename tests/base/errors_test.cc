// The errors: their texts, their JSON, and what each can be caught as.
#include "tpubridge/base/backend_errors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <type_traits>

namespace tpubridge {
namespace {

TEST(Errors, WhatHoldsMessageDetailsAndHint) {
  EXPECT_STREQ(Error("it broke").what(), "it broke");
  EXPECT_STREQ(Error("it broke", {{"a", "1"}, {"b", "2"}}).what(), "it broke (a=1, b=2)");
  EXPECT_STREQ(Error("it broke", {}, "Mend it.").what(), "it broke. Mend it.");
  EXPECT_STREQ(Error("it broke.", {}, "Mend it.").what(), "it broke. Mend it.");
  EXPECT_STREQ(Error("it broke", {{"a", "1"}}, "Mend it.").what(), "it broke (a=1). Mend it.");
}

TEST(Errors, WhatSteersNoTerminal) {
  const Error e("no \x1b[31mfile\n", {{"path", "\x1b]0;x\x07"}}, "Rename\tit.");
  EXPECT_STREQ(e.what(), "no \\x1b[31mfile\n (path=\\x1b]0;x\\x07). Rename\tit.");
  EXPECT_EQ(e.detail("path"), "\x1b]0;x\x07") << "the parts are as they were given";
}

TEST(Errors, Parts) {
  const FileError e("m", {{"path", "/x"}, {"path", "second"}}, "h", Code::data_loss);
  EXPECT_EQ(e.message(), "m");
  EXPECT_EQ(e.hint(), "h");
  EXPECT_EQ(e.code(), Code::data_loss);
  EXPECT_EQ(e.detail("path"), "/x");
  EXPECT_EQ(e.detail("none"), "");
  EXPECT_EQ(e.details().size(), 2u);
  EXPECT_EQ(Error("m").code(), Code::ok);
}

TEST(Errors, TypeNameAndRepr) {
  EXPECT_EQ(Error("m").repr(), "Error('m', details={})");
  EXPECT_EQ(TPUOutOfMemoryError("m", {{"needed", "5"}, {"free", "3"}}).repr(),
            "TPUOutOfMemoryError('m', details={'needed': '5', 'free': '3'})");
  try {
    throw XLACompilationTimeoutError("slow");
  } catch (const Error& e) {
    EXPECT_EQ(e.type_name(), "XLACompilationTimeoutError") << "the class that was thrown, through any base";
    EXPECT_STREQ(e.what(), "slow") << "a virtual base keeps its text";
  }
}

TEST(Errors, Json) {
  const auto plain = nlohmann::json::parse(PluginError("m").to_json());
  EXPECT_EQ(plain,
            nlohmann::json(
                {{"error_type", "PluginError"}, {"message", "m"}, {"details", nlohmann::json::object()}}));
  const auto full =
      nlohmann::json::parse(PjrtError("m \"q\"\n", {{"k", "v"}}, "h", Code::resource_exhausted).to_json());
  EXPECT_EQ(full["message"], "m \"q\"\n");
  EXPECT_EQ(full["details"]["k"], "v");
  EXPECT_EQ(full["hint"], "h");
  EXPECT_EQ(full["code"], "RESOURCE_EXHAUSTED");
}

TEST(Errors, JsonOfBytesThatAreNoText) {
  const auto out = nlohmann::json::parse(PjrtError("a\xff"
                                                   "b",
                                                   {{"\xc3", "\xe2\x82"}})
                                             .to_json());
  EXPECT_EQ(out["message"],
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(out["details"].begin().key(), "\xef\xbf\xbd");
}

TEST(Errors, CodeNames) {
  EXPECT_EQ(to_string(Code::ok), "OK");
  EXPECT_EQ(to_string(Code::invalid_argument), "INVALID_ARGUMENT");
  EXPECT_EQ(to_string(Code::resource_exhausted), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(to_string(Code::unauthenticated), "UNAUTHENTICATED");
  EXPECT_EQ(static_cast<int>(Code::unauthenticated), 16) << "PJRT numbers them so";
  EXPECT_EQ(static_cast<int>(Code::data_loss), 15);
  EXPECT_EQ(to_string(static_cast<Code>(99)), "UNKNOWN");
  EXPECT_EQ(to_string(static_cast<Code>(-1)), "UNKNOWN");
}

template <class Thrown, class... Bases>
void expect_caught_as() {
  const auto caught = []<class Base>(std::type_identity<Base>) {
    try {
      throw Thrown("text", {{"k", "v"}});
    } catch (const Base& e) {
      if constexpr (std::is_base_of_v<Error, Base>)
        return e.detail("k") == "v";
      else
        return std::string(e.what()) == "text (k=v)";
    } catch (...) {
      return false;
    }
  };
  EXPECT_TRUE(caught(std::type_identity<std::exception>{}));
  EXPECT_TRUE(caught(std::type_identity<Error>{}));
  EXPECT_TRUE((caught(std::type_identity<Bases>{}) && ...)) << Thrown("").type_name();
}

TEST(Errors, EachCanBeCaughtAsItsBases) {
  expect_caught_as<ArgumentError>();
  expect_caught_as<FileError>();
  expect_caught_as<ProgramError>();
  expect_caught_as<ConfigurationError>();
  expect_caught_as<DeviceError>();
  expect_caught_as<DeviceNotAvailableError, DeviceError>();
  expect_caught_as<CompilationError>();
  expect_caught_as<OutOfMemoryError>();
  expect_caught_as<BackendError>();
  expect_caught_as<TPUBackendError, BackendError>();
  expect_caught_as<PluginError, TPUBackendError, BackendError>();
  expect_caught_as<UnsupportedError, TPUBackendError, BackendError>();
  expect_caught_as<PjrtError, TPUBackendError, BackendError>();
  expect_caught_as<XLACompilationError, CompilationError, TPUBackendError, BackendError>();
  expect_caught_as<XLACompilationTimeoutError, XLACompilationError, CompilationError, TPUBackendError>();
  expect_caught_as<TPUMemoryError, OutOfMemoryError, TPUBackendError, BackendError>();
  expect_caught_as<TPUOutOfMemoryError, TPUMemoryError, OutOfMemoryError, TPUBackendError>();
  expect_caught_as<TPUDeviceError, DeviceError, TPUBackendError, BackendError>();
  expect_caught_as<TPUNotAvailableError, DeviceNotAvailableError, DeviceError, TPUBackendError>();
  expect_caught_as<TPUConfigurationError, ConfigurationError, TPUBackendError, BackendError>();
  expect_caught_as<TPUValidationError, TPUBackendError, BackendError>();
  expect_caught_as<TPUModelPreparationError, TPUBackendError, BackendError>();
  expect_caught_as<TPUCacheError, FileError, TPUBackendError, BackendError>();
  expect_caught_as<TPUCheckpointError, TPUBackendError, BackendError>();
  expect_caught_as<TPUDistributedError, TPUBackendError, BackendError>();
  expect_caught_as<TPUMemoryPoolError, MemoryPoolError, TPUMemoryError, TPUBackendError>();
  expect_caught_as<TPUOptimizationError, OptimizationError, TPUBackendError, BackendError>();
}

TEST(Errors, NoneIsCaughtAsAnUnrelatedOne) {
  EXPECT_FALSE((std::is_base_of_v<TPUBackendError, FileError>));
  EXPECT_FALSE((std::is_base_of_v<OutOfMemoryError, XLACompilationError>));
  EXPECT_FALSE((std::is_base_of_v<DeviceNotAvailableError, TPUDeviceError>));
  EXPECT_FALSE((std::is_base_of_v<TPUBackendError, ConfigurationError>));
}

}  // namespace
}  // namespace tpubridge
