// What libfake_pjrt.so exports beside GetPjrtApi; tests find these by dlsym. README.md tells every setting.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Changes the settings at once; those not named stay. Null where all is well, otherwise what is wrong with
// the text (nothing is changed then). What describes the table or the machine is used by the next GetPjrtApi
// or client.
const char* fake_pjrt_configure(const char* settings);

// The number behind a name: a function of the table (its calls), "live.buffer", "live.event", …, "misuse",
// "fired.execute_oom", …; -1 where there is no such name.
int64_t fake_pjrt_counts(const char* name);

// Every misuse since the last reset, one line each; valid until the next call in this thread.
const char* fake_pjrt_misuse(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
