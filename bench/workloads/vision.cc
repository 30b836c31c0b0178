// Nets for images, whose training steps are large programs: what counts is how long they compile.
#include "bench/workloads/training.h"
#include "examples/models/mobile.h"
#include "examples/models/resnet.h"
#include "examples/models/swin.h"
#include "examples/models/unet.h"

namespace workloads {
namespace {

using torch::Tensor;

template <class Net>
Workload train_on_images(Mode mode, const Params& p, std::shared_ptr<Net> net, c10::IntArrayRef classes_of) {
  const auto device = device_of(mode);
  net->to(device);
  auto t = std::make_shared<Training>();
  t->model = net;
  t->optimizer =
      std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(1e-2).momentum(0.9));
  t->loss = [net, device, dtype = p.text("dtype")](const Tensor& x, const Tensor& y) {
    const Autocast narrow(device, dtype);
    return torch::cross_entropy_loss(net->forward(x), y);
  };
  t->x = torch::randn({p.number("batch"), 3, p.number("image"), p.number("image")}).to(device);
  t->y = torch::randint(p.number("classes"), classes_of, torch::kLong).to(device);
  return training(mode, t);
}

}  // namespace

Workload resnet(Mode mode, const Params& p) {
  const bool deep = p.number("depth") == 50;
  const auto net = std::make_shared<models::ResNet>(
      models::ResNetConfig{deep ? std::vector<int64_t>{3, 4, 6, 3} : std::vector<int64_t>{2, 2, 2, 2}, deep,
                           p.number("width"), p.number("classes"), false});
  return train_on_images(mode, p, net, {p.number("batch")});
}

Workload efficientnet(Mode mode, const Params& p) {
  const auto net = std::make_shared<models::MobileNet>(models::efficientnet_b0(p.number("classes")));
  return train_on_images(mode, p, net, {p.number("batch")});
}

Workload mobilenet(Mode mode, const Params& p) {
  const auto net = std::make_shared<models::MobileNet>(models::mobilenet_v3(p.number("classes")));
  return train_on_images(mode, p, net, {p.number("batch")});
}

Workload swin(Mode mode, const Params& p) {
  const auto net = std::make_shared<models::Swin>(p.number("image"), p.number("classes"));
  return train_on_images(mode, p, net, {p.number("batch")});
}

Workload unet(Mode mode, const Params& p) {
  const auto net = std::make_shared<models::UNet>(p.number("width"), p.number("levels"), p.number("classes"));
  return train_on_images(mode, p, net, {p.number("batch"), p.number("image"), p.number("image")});
}

}  // namespace workloads
