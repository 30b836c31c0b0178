// The one source that sees ProcessGroupGloo: its header takes 20 s to compile.
#include "tpubridge/distributed/gloo.h"

#define USE_C10D_GLOO
#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <array>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/fd.h"
#include "tpubridge/distributed/no_pipe_signal.h"

namespace tpubridge::distributed {
namespace {

std::string where(const Place& p) { return p.host + ":" + std::to_string(p.port); }

}  // namespace

std::string words_of(const std::exception& error) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&error);
  std::string words = torchs ? torchs->what_without_backtrace() : error.what();
  return words.substr(0, words.find("\nException raised from"));
}

StorePtr open_store(const Place& place, std::chrono::milliseconds timeout) {
  if (place.world == 1) return c10::make_intrusive<c10d::HashStore>();
  const NoPipeSignal none;  // in the threads that serve it, too
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.port);
  options.isServer = place.rank == 0 && place.serves;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.host, options);
  } catch (const std::exception& e) {
    throw TPUDistributedError(
        options.isServer ? "rank 0 cannot serve the store of the job at " + where(place)
                         : "the store of the job cannot be reached at " + where(place),
        {{"rank", std::to_string(place.rank)}, {"launcher", place.launcher}, {"error", words_of(e)}},
        options.isServer
            ? "The port may be taken, by another job or by a process of this one that did not end: "
              "choose another one for all ranks (TPUBRIDGE_COORDINATOR=host:port)."
            : "Has rank 0 been started, at that address, and does a firewall let it through? "
              "TPUBRIDGE_COORDINATOR=host:port says another one, for all ranks.",
        Code::unavailable);
  }
}

std::string own_address(const Place& place) {
  if (place.host.empty() || place.world == 1) return "127.0.0.1";
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  const std::string port = std::to_string(place.port);
  if (const int error = getaddrinfo(place.host.c_str(), port.c_str(), &hints, &found); error != 0)
    throw TPUDistributedError("the coordinator's host " + place.host + " is not known here",
                              {{"rank", std::to_string(place.rank)}, {"error", gai_strerror(error)}},
                              "Give its address: TPUBRIDGE_COORDINATOR=host:port.", Code::unavailable);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  for (const addrinfo* a = found; a; a = a->ai_next) {
    const Fd socket(::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.get() < 0 || connect(socket.get(), a->ai_addr, a->ai_addrlen) != 0) continue;  // sends nothing
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    std::array<char, NI_MAXHOST> text{};
    if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0)
      return text.data();
  }
  throw TPUDistributedError("no network of this host leads to the coordinator " + where(place),
                            {{"rank", std::to_string(place.rank)}},
                            "Give another address of it: TPUBRIDGE_COORDINATOR=host:port.",
                            Code::unavailable);
}

BackendPtr make_gloo(const StorePtr& store, const Place& place, const std::string& address,
                     std::chrono::milliseconds timeout) {
  const NoPipeSignal none;  // in the threads that carry the data, too
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
    options->threads = 1;  // collectives of a group come one after the other
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(place.rank),
                                                       static_cast<int>(place.world), options);
  } catch (const std::exception& e) {
    throw TPUDistributedError(
        "the processes cannot connect to each other",
        {{"rank", std::to_string(place.rank)}, {"address", address}, {"error", words_of(e)}},
        "Every rank must reach every other one under the address by which it reaches the coordinator.",
        Code::unavailable);
  }
}

}  // namespace tpubridge::distributed
