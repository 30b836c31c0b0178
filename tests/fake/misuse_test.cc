// What would crash a real plugin is recorded here and answered with an error.
#include "tests/fake/raw.h"

namespace fake_test {
namespace {

class Misuse : public Raw {
 protected:
  void expect_misuse(PJRT_Error* error, const std::string& text) {
    const auto problem = failed(error);
    ASSERT_TRUE(problem) << text;
    EXPECT_EQ(problem->code, PJRT_Error_Code_INVALID_ARGUMENT);
    EXPECT_NE(problem->message.find(text), std::string::npos) << problem->message;
    ++expected_;
    EXPECT_EQ(count("misuse"), expected_) << misuse();
  }
  int64_t expected_ = 0;
};

TEST_F(Misuse, DestroyingTwice) {
  PJRT_Client* client = make_client("chips=1");
  PJRT_Buffer* b = buffer(client, devices(client)[0], {1});
  PJRT_LoadedExecutable* e = compile(client, doubling(1));
  PJRT_Event* event = ready(b);
  EXPECT_FALSE(await_and_destroy(event));
  auto ve = args<PJRT_Event_Destroy_Args>();
  ve.event = event;
  expect_misuse(api_->PJRT_Event_Destroy(&ve),
                "PJRT_Event_Destroy: a event was expected, but the handle is one that was destroyed before");
  destroy(b);
  auto vb = args<PJRT_Buffer_Destroy_Args>();
  vb.buffer = b;
  expect_misuse(api_->PJRT_Buffer_Destroy(&vb), "destroyed before");
  destroy(e);
  auto vl = args<PJRT_LoadedExecutable_Destroy_Args>();
  vl.executable = e;
  expect_misuse(api_->PJRT_LoadedExecutable_Destroy(&vl), "destroyed before");
  destroy(client);
  auto vc = args<PJRT_Client_Destroy_Args>();
  vc.client = client;
  expect_misuse(api_->PJRT_Client_Destroy(&vc), "destroyed before");
  vb.buffer = nullptr;  // a null is allowed
  ok(api_->PJRT_Buffer_Destroy(&vb));
}

TEST_F(Misuse, ErrorsFreedTwiceAreRecorded) {
  auto a = args<PJRT_Client_DmaMap_Args>();
  auto d = args<PJRT_Error_Destroy_Args>();
  d.error = api_->PJRT_Client_DmaMap(&a);
  ASSERT_NE(d.error, nullptr);
  api_->PJRT_Error_Destroy(&d);
  api_->PJRT_Error_Destroy(&d);
  EXPECT_EQ(count("misuse"), 1);
  EXPECT_NE(misuse().find("PJRT_Error_Destroy"), std::string::npos);
}

TEST_F(Misuse, NullForeignAndWrongHandles) {
  int stranger = 0;
  PJRT_Client* client = make_client("chips=1");
  auto dims = args<PJRT_Buffer_Dimensions_Args>();
  expect_misuse(api_->PJRT_Buffer_Dimensions(&dims), "the handle is null");
  dims.buffer = reinterpret_cast<PJRT_Buffer*>(&stranger);
  expect_misuse(api_->PJRT_Buffer_Dimensions(&dims), "not one of this plugin");
  dims.buffer = reinterpret_cast<PJRT_Buffer*>(client);
  expect_misuse(api_->PJRT_Buffer_Dimensions(&dims), "the handle is a client");
  expect_misuse(api_->PJRT_Buffer_Dimensions(nullptr), "no arguments");
  destroy(client);
}

TEST_F(Misuse, ExecuteWithWhatCannotRun) {
  PJRT_Client* client = make_client("chips=2");
  PJRT_Client* other = make_client("chips=2");
  PJRT_LoadedExecutable* e = compile(client, doubling(2));
  PJRT_Buffer* strange = buffer(other, devices(other)[0], {1, 2});
  const auto refused = [&](const std::vector<PJRT_Buffer*>& arguments, const std::string& text) {
    const Ran ran = execute(e, arguments);
    ASSERT_TRUE(ran.error);
    EXPECT_NE(ran.error->message.find(text), std::string::npos) << ran.error->message;
    EXPECT_EQ(count("misuse"), ++expected_) << misuse();
  };
  refused({nullptr}, "the handle is null");
  refused({strange}, "argument 0 belongs to another client");
  destroy(strange);
  refused({strange}, "destroyed before");
  auto options = args<PJRT_ExecuteOptions>();
  auto a = args<PJRT_LoadedExecutable_Execute_Args>();
  a.executable = e;
  a.num_devices = 1;
  expect_misuse(api_->PJRT_LoadedExecutable_Execute(&a), "the options are null");
  a.options = &options;
  a.num_devices = 2;
  expect_misuse(api_->PJRT_LoadedExecutable_Execute(&a), "2 devices are announced");
  a.num_devices = 1;
  a.num_args = 1;
  expect_misuse(api_->PJRT_LoadedExecutable_Execute(&a), "a list is null");
  destroy(e);
  destroy(client);
  destroy(other);
}

TEST_F(Misuse, AClientDestroyedBeforeItsBuffers) {
  PJRT_Client* client = make_client("chips=1");
  PJRT_Buffer* b = buffer(client, devices(client)[0], {5});
  auto a = args<PJRT_Client_Destroy_Args>();
  a.client = client;
  expect_misuse(api_->PJRT_Client_Destroy(&a), "before 1 of its buffers");
  destroy(b);  // still safe
}

TEST_F(Misuse, AnEventAskedTooEarly) {
  PJRT_Client* client = make_client("chips=1,fail=execute_hang");
  PJRT_LoadedExecutable* e = compile(client, doubling(1));
  PJRT_Buffer* in = buffer(client, devices(client)[0], {5});
  Ran ran = execute(e, {in});
  auto a = args<PJRT_Event_Error_Args>();
  a.event = ran.done;
  expect_misuse(api_->PJRT_Event_Error(&a), "not ready yet");
  configure("release");
  EXPECT_FALSE(await_and_destroy(ran.done));
  destroy(ran.outputs[0]);
  destroy(in);
  destroy(e);
  destroy(client);
}

TEST_F(Misuse, OptionsOfTheWrongTypeOrName) {
  auto option = args<PJRT_NamedValue>();
  option.name = "max_inflight_computations";
  option.name_size = std::strlen(option.name);
  option.type = PJRT_NamedValue_kString;
  option.string_value = "4";
  option.value_size = 1;
  auto a = args<PJRT_Client_Create_Args>();
  a.create_options = &option;
  a.num_options = 1;
  const auto wrong = failed(api_->PJRT_Client_Create(&a));
  ASSERT_TRUE(wrong);
  EXPECT_NE(wrong->message.find("wrong type"), std::string::npos);
  option.name = "cpu_devices";
  option.name_size = std::strlen(option.name);
  const auto unknown = failed(api_->PJRT_Client_Create(&a));
  ASSERT_TRUE(unknown);
  EXPECT_NE(unknown->message.find("cpu_devices"), std::string::npos);
  EXPECT_EQ(count("misuse"), 0);
}

}  // namespace
}  // namespace fake_test
