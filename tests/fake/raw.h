// The fake plugin through the raw C API: nothing of tpubridge stands between these tests and the table.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "pjrt_c_api.h"
#include "tests/fake_plugin/fake_pjrt.h"

namespace fake_test {

struct Failed {
  int code;
  std::string message;
};

template <class Args>
Args args() {
  Args a{};
  a.struct_size = sizeof a;
  return a;
}

// One per test: resets the fake, and at the end holds it to have nothing left alive and nothing misused.
class Raw : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  static void configure(const std::string& text);
  static int64_t count(const std::string& name);
  static std::string misuse();
  static const PJRT_Api* get_api();

  std::optional<Failed> failed(PJRT_Error* error) const;  // frees it
  void ok(PJRT_Error* error) const;                       // a test failure where there is one

  PJRT_Client* make_client(const std::string& settings = "");
  void destroy(PJRT_Client* client) const;
  std::vector<PJRT_Device*> devices(PJRT_Client* client, bool addressable = true) const;
  PJRT_DeviceDescription* description(PJRT_Device* device) const;

  struct FromHost {
    std::optional<Failed> error;
    PJRT_Buffer* buffer = nullptr;
  };
  FromHost try_buffer(PJRT_Client* client, PJRT_Device* device, const std::vector<float>& values) const;
  PJRT_Buffer* buffer(PJRT_Client* client, PJRT_Device* device, const std::vector<float>& values) const;
  void destroy(PJRT_Buffer* buffer) const;
  std::optional<Failed> read(PJRT_Buffer* buffer, std::vector<float>& into) const;
  PJRT_Event* ready(PJRT_Buffer* buffer) const;
  bool is_ready(PJRT_Event* event) const;
  std::optional<Failed> await_and_destroy(PJRT_Event* event) const;

  struct Compiled {
    std::optional<Failed> error;
    PJRT_LoadedExecutable* executable = nullptr;
  };
  Compiled try_compile(PJRT_Client* client, const std::string& code) const;
  PJRT_LoadedExecutable* compile(PJRT_Client* client, const std::string& code) const;
  void destroy(PJRT_LoadedExecutable* executable) const;

  struct Ran {
    std::optional<Failed> error;
    std::vector<PJRT_Buffer*> outputs;
    PJRT_Event* done = nullptr;
  };
  Ran execute(PJRT_LoadedExecutable* executable, std::vector<PJRT_Buffer*> arguments,
              size_t outputs = 1) const;

  PJRT_Device_MemoryStats_Args memory(PJRT_Device* device) const;

  const PJRT_Api* api_ = nullptr;
  bool misuse_expected_ = false;

 private:
  std::vector<int64_t> live_;
};

// f32[n] → x + x
std::string doubling(int64_t n);

// The least that compiles: one replica, one partition.
extern const std::string kOptions;

}  // namespace fake_test
