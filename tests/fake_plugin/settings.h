// What the fake pretends to be, and what it shall get wrong: parsed from "key=value,key=value,…" (README.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt_c_api.h"

namespace fake {

// One failure on demand: the first `after` calls pass, then `times` calls fail.
struct Rule {
  std::string kind;
  int64_t after = 0;
  int64_t times = 1;                          // -1: always
  PJRT_Error_Code code = PJRT_Error_Code_OK;  // OK: the kind's own
  int64_t ms = 100;                           // compile_slow
  int device = 0;                             // device_lost
  std::string function;                       // call_error
  int64_t seen = 0, fired = 0;
};

struct Settings {
  std::string generation = "v5e";
  int chips = 4, hosts = 1, host = 0;
  int cores = 0;       // devices per chip; 0: the generation's own
  std::string bounds;  // "4x4": instead of chips and hosts
  int64_t hbm_mb = 0;  // per device; 0: the generation's own
  int major = PJRT_API_MAJOR, minor = PJRT_API_MINOR;
  bool no_api = false;                                          // GetPjrtApi returns null
  std::vector<std::string> missing;                             // functions whose pointer is null
  std::vector<int> extensions = {PJRT_Extension_Type_FFI, 24};  // types; 24 is newer than our header
  std::map<std::string, size_t, std::less<>> args_growth;  // function → bytes its Args are larger than ours
  bool kv_all = false;                                     // client creation waits for every host's key
  int kv_timeout_ms = 1000;
  std::vector<Rule> rules;
};

struct Orders {
  bool release = false;  // let everything go that hangs
  bool reset = false;    // back to FAKE_PJRT, counts to zero
};

// Changes `settings` by `text`, or throws Failure and changes nothing.
Orders parse(std::string_view text, Settings& settings);

}  // namespace fake
