// Checks that something throws ProgramError and that its text says all of what it must.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>

#include "tpubridge/base/errors.h"

namespace tpubridge::hlo {

inline void expect_error(const std::function<void()>& body, std::initializer_list<const char*> parts) {
  try {
    body();
  } catch (const ProgramError& e) {
    for (const char* part : parts) EXPECT_THAT(e.what(), testing::HasSubstr(part));
    return;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception, instead of " << *parts.begin() << ": " << e.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown: " << *parts.begin();
}

}  // namespace tpubridge::hlo
