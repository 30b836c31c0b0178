// Running programs, and knowing which still run. On XLA's CPU plugin a program runs on threads of this
// process: one that ends while a program runs would crash in the plugin's static destructors, so at exit they
// are waited for (cache/at_exit.h). On other platforms nothing is kept: the completion event alone costs
// microseconds there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tpubridge/exec/cache.h"
#include "tpubridge/pjrt/executable.h"

namespace tpubridge::exec {

[[nodiscard]] std::vector<pjrt::Buffer> execute(const pjrt::LoadedExecutable& program,
                                                std::span<const pjrt::Buffer* const> arguments,
                                                std::span<const int64_t> not_donatable = {});
// Over all its devices.
[[nodiscard]] std::vector<std::vector<pjrt::Buffer>> execute_all(
    const pjrt::LoadedExecutable& program, std::span<const std::vector<const pjrt::Buffer*>> arguments,
    std::span<const int64_t> not_donatable = {});

// What a program that failed gives must not take the place of anything: here its error is thrown.
void wait_where_it_may_fail(const Compiled& compiled, std::span<const pjrt::Buffer> results);

// Until all that were started have ended, in whatever order; throws what went wrong with the first that
// failed. Only on a plugin whose programs run in this process.
void wait_for_programs();
void forget_in_flight();  // for a client that is given up

}  // namespace tpubridge::exec
