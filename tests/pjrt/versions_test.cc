// Plugins older and newer than our header, with functions missing, and with every function failing in turn.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "tests/pjrt/fake.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/topology.h"

namespace tpubridge::pjrt {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Uses everything that pjrt/ has. Throws what goes wrong.
void use_everything(const FakePlugin& fake) {
  const auto plugin = Plugin::load(fake.path());
  (void)plugin->attributes();
  const auto client = Client::create(plugin);
  (void)client->platform_name();
  (void)client->platform_version();
  (void)client->process_index();
  (void)client->default_device_assignment(1, 1);
  const Device &d = *client->addressable_devices()[0], &e = *client->addressable_devices()[1];
  (void)d.memory_stats();
  const auto program = client->compile({doubling(4)});
  (void)program.info().name();
  (void)program.info().num_replicas();
  (void)program.info().num_partitions();
  (void)program.info().cost_analysis();
  (void)program.info().memory();
  (void)program.info().fingerprint();
  const auto loaded = client->load(program.info().serialize());
  Buffer in = client->to_device(std::vector<float>{1, 2, 3, 4}, {DType::f32, {4}}, d);
  const auto owner = std::make_shared<std::vector<float>>(4, 2.0F);
  const Buffer lent =
      client->to_device(HostArray{owner->data(), {DType::f32, {4}}, {}}, d, HostSemantics::zero_copy, owner);
  const Buffer* const arguments[] = {&in};
  std::vector<Event> done;
  const auto out = loaded.execute(arguments, {.done = &done});
  done[0].wait();
  (void)done[0].ready();
  out[0].wait();
  if (out[0].to_vector<float>() != std::vector<float>{2, 4, 6, 8}) throw std::runtime_error("wrong numbers");
  (void)out[0].memory_kind();
  (void)out[0].device_bytes();
  (void)out[0].unsafe_pointer();
  (void)out[0].copy_to(e);
  (void)out[0].copy_to(*d.memory("pinned_host"));
  in.erase();
  const Topology topology(plugin, "v5e:2x2");
  (void)topology.platform_name();
  (void)topology.devices();
  (void)topology.compile({doubling(4)}, {});
}

bool frees(const std::string& function) {
  return function.ends_with("_Destroy") || function.starts_with("PJRT_Error_");
}

TEST(Versions, OlderAndNewerMinorsWork) {
  for (const int minor : {57, 60, 68, 74, 78, 80, 82, 116, 300}) {
    const FakePlugin fake("minor=" + std::to_string(minor));
    EXPECT_EQ(Plugin::load(fake.path())->api_version(), (ApiVersion{0, minor}));
    EXPECT_NO_THROW(use_everything(fake)) << minor;
    fake.expect_nothing_left();
  }
}

TEST(Versions, WhatAnOlderPluginDoesNotTellIsZero) {
  for (const auto& [minor, told] : {std::pair{71, false}, {72, true}}) {
    const FakePlugin fake("minor=" + std::to_string(minor));
    const auto client = Client::create(Plugin::load(fake.path()));
    EXPECT_EQ(client->compile({doubling(4)}).info().memory().peak > 0, told) << minor;
  }
}

TEST(Versions, WhatWeCannotSpeakIsRefused) {
  const auto refused = [](const std::string& settings) -> std::string {
    const FakePlugin fake(settings);
    try {
      (void)Plugin::load(fake.path());
    } catch (const PluginError& e) {
      EXPECT_FALSE(e.hint().empty());
      return e.what();
    }
    return "loaded";
  };
  EXPECT_THAT(refused("major=1,minor=2"), HasSubstr("1.2"));
  EXPECT_THAT(refused("minor=56"), AllOf(HasSubstr("0.56"), HasSubstr("0.57 or newer is needed")));
  EXPECT_THAT(refused("minor=0"), HasSubstr("0.57 or newer is needed"));
  EXPECT_THAT(refused("api=null"), HasSubstr("nothing"));
  EXPECT_THAT(refused("missing=PJRT_Error_Message"), HasSubstr("error functions"));
  EXPECT_THAT(refused("fail=initialize_error"), HasSubstr("does not initialise, on demand"));
}

TEST(Versions, AFailedStartCanBeTriedAgain) {
  const FakePlugin fake("fail=initialize_error");
  EXPECT_THROW((void)Plugin::load(fake.path()), PluginError);
  EXPECT_NO_THROW((void)Plugin::load(fake.path()));
  fake.expect_nothing_left();
}

// A variable of the environment, for as long as this lives.
struct Variable {
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  const char* name_;
};

TEST(Versions, TheEnvironmentSaysWhatTheFakeIs) {
  {
    const Variable settings("FAKE_PJRT", "generation=v4,chips=2");
    const FakePlugin fake;
    const auto client = Client::create(Plugin::load(fake.path()));
    ASSERT_EQ(client->devices().size(), 2U);
    EXPECT_EQ(client->devices()[1].info().kind, "TPU v4");
  }
  const auto refused = [](const char* name, const char* value) -> std::string {
    const Variable variable(name, value);
    const FakePlugin fake;
    try {
      (void)Plugin::load(fake.path());
    } catch (const PluginError& e) {
      return e.what();
    }
    return "loaded";
  };
  EXPECT_THAT(refused("FAKE_PJRT", "generation=v9"), HasSubstr("v9"));
  EXPECT_THAT(refused("FAKE_PJRT_UNDER", "/no/such/plugin.so"), HasSubstr("nothing"));
}

TEST(Versions, ArgsThatGrewAreAnErrorNotACrash) {
  const FakePlugin fake("args=PJRT_LoadedExecutable_Execute+32");
  try {
    use_everything(fake);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const PjrtError& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("PJRT_LoadedExecutable_Execute_Args size"));
  }
  fake.expect_nothing_left();
}

TEST(Versions, NoExtensionsNoHandlers) {
  const FakePlugin fake("extensions=none");
  const auto plugin = Plugin::load(fake.path());
  EXPECT_TRUE(plugin->extensions().empty());
  int handler = 0;
  EXPECT_THROW(plugin->register_ffi_handler("mine", &handler, "Host"), UnsupportedError);
  const FakePlugin bare("extensions=5+4+24");
  EXPECT_THAT(Plugin::load(bare.path())->extensions(), testing::ElementsAre("FFI", "Layouts", "type 24"));
}

// A null pointer in the table is "this plugin has no X", wherever it is met.
TEST(Versions, EveryFunctionMayBeMissing) {
  const FakePlugin whole;
  use_everything(whole);
  int used = 0;
  for (const std::string& function : api_functions()) {
    if (whole.count(function) == 0 || frees(function)) continue;
    ++used;
    const FakePlugin fake("missing=" + function);
    try {
      use_everything(fake);
    } catch (const UnsupportedError& e) {
      EXPECT_THAT(e.what(), HasSubstr(function));
    } catch (const Error& e) {
      ADD_FAILURE() << function << ": " << e.repr();
    }
    fake.expect_nothing_left();
  }
  EXPECT_GT(used, 40);
}

// Every call that pjrt/ makes fails once: an exception, nothing left alive, nothing freed twice.
TEST(Versions, EveryCallMayFail) {
  const FakePlugin fake;
  use_everything(fake);
  std::map<std::string, int64_t> calls;
  for (const std::string& function : api_functions())
    if (fake.count(function) > 0 && !frees(function)) calls[function] = fake.count(function);
  EXPECT_GT(calls.size(), 40U);
  for (const auto& [function, count] : calls) {
    if (function == "PJRT_Plugin_Initialize") continue;  // called once per file: AFailedStartCanBeTriedAgain
    for (const int64_t after : {int64_t{0}, count / 2, count - 1}) {
      fake.configure("reset,fail=call_error:code=DATA_LOSS:function=" + function +
                     ":after=" + std::to_string(after));
      try {
        use_everything(fake);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::data_loss) << function << ": " << e.what();
      }
      EXPECT_EQ(fake.count("fired.call_error"), 1) << function << " after " << after;
      fake.expect_nothing_left();
    }
  }
}

class Store : public KeyValueStore {
 public:
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    const auto until = std::chrono::steady_clock::now() + timeout;
    do {
      if (const auto found = try_get(key)) return *found;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (std::chrono::steady_clock::now() < until);
    throw TPUBackendError("no key " + key, {}, {}, Code::deadline_exceeded);
  }
  std::optional<std::string> try_get(const std::string& key) override {
    const std::lock_guard guard(lock_);
    const auto at = values_.find(key);
    return at == values_.end() ? std::nullopt : std::optional(at->second);
  }
  void put(const std::string& key, const std::string& value) override {
    const std::lock_guard guard(lock_);
    values_[key] = value;
  }

 private:
  std::mutex lock_;
  std::map<std::string, std::string> values_;
};

TEST(ManyHosts, ClientsFindEachOtherThroughTheStore) {
  const auto store = std::make_shared<Store>();
  const FakePlugin hosts[] = {FakePlugin("chips=8,hosts=2,host=0,kv=all,kv_timeout_ms=60000"),
                              FakePlugin("chips=8,hosts=2,host=1,kv=all,kv_timeout_ms=60000")};
  std::shared_ptr<Client> clients[2];
  std::thread other([&] { clients[1] = Client::create(Plugin::load(hosts[1].path()), {}, store); });
  clients[0] = Client::create(Plugin::load(hosts[0].path()), {}, store);
  other.join();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(clients[i]->process_index(), i);
    EXPECT_EQ(clients[i]->devices().size(), 8U);
    ASSERT_EQ(clients[i]->addressable_devices().size(), 4U);
    EXPECT_EQ(clients[i]->addressable_devices()[0]->id(), i * 4);
    EXPECT_FALSE(clients[i]->device(i == 0 ? 7 : 0).addressable());
  }
  EXPECT_THROW((void)clients[0]->to_device(std::vector<float>{1}, {DType::f32, {1}}, clients[0]->device(7)),
               ArgumentError);
}

TEST(ManyHosts, AHostThatNeverComesIsADeadline) {
  const FakePlugin fake("chips=8,hosts=2,kv=all,kv_timeout_ms=20");
  try {
    (void)Client::create(Plugin::load(fake.path()), {}, std::make_shared<Store>());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.code(), Code::deadline_exceeded);
    EXPECT_THAT(e.what(), HasSubstr("fake_pjrt/host/1"));
  }
  fake.expect_nothing_left();
}

}  // namespace
}  // namespace tpubridge::pjrt
