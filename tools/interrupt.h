// Ctrl-C and SIGTERM: the process ends at once with a message and nothing half-written. A compile cannot be
// stopped from outside, so the handler leaves by _exit; saving a file is the one thing that it waits for.
#pragma once

#include <atomic>

#include "tpubridge/base/files.h"

namespace tpubridge::tools {

// Installs the handlers; with `json` the message is an object on stdout. What came while interrupts were
// postponed is told at once.
void handle_interrupts(bool json);
// They wait from here on, also through execv(), until the program that takes over handles them: libtorch
// takes a second to load.
void postpone_interrupts();

// What is going on, for the message: a string that lives for ever ("compiling"). Flushes stdout, since _exit
// does not.
void set_phase(const char* doing);

// Holds interrupts back while it lives, on all threads, and delivers them then: for what is short, and for
// what looks at requested() (a child process that is to be ended first: Command::cancel).
class NoInterrupts {
 public:
  NoInterrupts();
  // While a file is written: not where it is a pipe or a device, whose other end may never read.
  explicit NoInterrupts(const Path& target);
  ~NoInterrupts();
  NoInterrupts(const NoInterrupts&) = delete;
  NoInterrupts& operator=(const NoInterrupts&) = delete;
  [[nodiscard]] static const std::atomic<bool>* requested();  // whether one came
  [[nodiscard]] static int signal();                          // the last that came, or 0
  // For a command whose work is done, and which says itself that one came: signals no longer end it with a
  // message. They give it three seconds to write its last words; a reader may sleep for ever.
  static void only_tell();

 private:
  bool holds_ = true;
};

}  // namespace tpubridge::tools
