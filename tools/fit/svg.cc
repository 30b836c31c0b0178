#include "tools/fit/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tpubridge::tools {
namespace {

constexpr std::array kColours = {"#3366cc", "#dc7633", "#2e9e5b", "#a569bd", "#c0392b",
                                 "#7f8c8d", "#17a2b8", "#b7950b", "#5d6d7e"};
const char* colour_of(size_t i) { return kColours[i % kColours.size()]; }

constexpr double kWidth = 860;

// 1500000 as "1.5M".
std::string short_number(double v) {
  constexpr std::array units = {"", "K", "M", "G", "T", "P", "E"};
  if (v == 0) return "0";
  if (std::abs(v) < 1e-3) return fmt::format("{:.1e}", v);
  size_t unit = 0;
  while (std::abs(v) >= 1000 && unit + 1 < units.size()) v /= 1000, ++unit;
  return fmt::format("{:.3g}{}", v, units[unit]);
}

class Scale {
 public:
  Scale(double least, double most, double from, double to, bool logarithmic)
      : log_(logarithmic), least_(at(least)), most_(at(most)), from_(from), to_(to) {
    if (most_ - least_ < 1e-12) most_ = least_ + 1;
  }
  [[nodiscard]] double operator()(double v) const {
    return from_ + (to_ - from_) * (at(v) - least_) / (most_ - least_);
  }
  // About five round numbers.
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> out;
    if (log_) {
      const double step = std::max(1.0, std::ceil((most_ - least_) / 6));
      for (double e = std::ceil(least_ - 1e-9); e <= most_ + 1e-9; e += step)
        out.push_back(std::pow(10.0, e));
      if (out.size() < 2) out = {std::pow(10.0, least_), std::pow(10.0, most_)};
      return out;
    }
    const double rough = (most_ - least_) / 5, power = std::pow(10.0, std::floor(std::log10(rough)));
    const double times = rough / power;
    const double step = power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
    for (double v = std::ceil(least_ / step) * step; v <= most_ + step / 1e6; v += step) out.push_back(v);
    return out;
  }

 private:
  [[nodiscard]] double at(double v) const { return log_ ? std::log10(v) : v; }
  bool log_;
  double least_, most_, from_, to_;
};

bool can_be_shown(const std::pair<double, double>& p, const Axis& x, const Axis& y) {
  if (!std::isfinite(p.first) || !std::isfinite(p.second)) return false;
  return (!x.logarithmic || p.first > 0) && (!y.logarithmic || p.second > 0);
}

std::string svg_open(double height) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" font-size=\"13\" font-family=\"sans-serif\">\n",
                     kWidth, height);
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     html_text(text));
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 32 || c == '\n' || c == '\t')
      out += c;
    else
      out += ' ';
  }
  return out;
}

std::string bars_svg(const std::vector<StackedBar>& bars) {
  if (bars.empty()) return "";
  constexpr double kLeft = 190, kRight = 170, kRow = 30;
  double most = 0;
  std::vector<std::string> names;  // of parts, in the order of their colours
  for (const auto& bar : bars) {
    double sum = 0;
    for (const auto& [name, size] : bar.parts) {
      sum += std::max(size, 0.0);
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
    most = std::max({most, sum, bar.limit});
  }
  if (!(most > 0)) return "";
  const double scale = (kWidth - kLeft - kRight) / most;
  const double bottom = kRow * static_cast<double>(bars.size());
  std::string out = svg_open(bottom + 40);
  for (size_t i = 0; i < bars.size(); ++i) {
    const double y = kRow * static_cast<double>(i);
    double x = kLeft;
    out += text_at(kLeft - 8, y + 20, "end", bars[i].name);
    for (const auto& [name, size] : bars[i].parts) {
      if (!(size > 0)) continue;
      const auto colour = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"20\" fill=\"{}\"><title>{}: "
          "{}</title></rect>\n",
          x, y + 5, size * scale, colour_of(colour), html_text(name), short_number(size));
      x += size * scale;
    }
    if (bars[i].limit > 0) {
      const double at = kLeft + bars[i].limit * scale;
      out += fmt::format(
          "<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#000\" "
          "stroke-width=\"2\"/>\n",
          at, y + 1, y + 29);
      x = std::max(x, at);
    }
    out += text_at(x + 6, y + 20, "start", bars[i].label);
  }
  double x = kLeft;
  for (size_t i = 0; i < names.size(); ++i) {
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"11\" fill=\"{}\"/>\n", x,
                       bottom + 14, colour_of(i));
    out += text_at(x + 15, bottom + 24, "start", names[i]);
    x += 28 + 7.5 * static_cast<double>(names[i].size());
  }
  return out + "</svg>\n";
}

std::string curves_svg(const std::vector<Curve>& curves, const Axis& x, const Axis& y) {
  constexpr double kLeft = 80, kTop = 12, kHeight = 300, kRight = 200;
  std::vector<std::pair<double, double>> all;
  for (const auto& c : curves)
    for (const auto& p : c.points)
      if (can_be_shown(p, x, y)) all.push_back(p);
  if (all.empty()) return "";
  const auto [x0, x1] = std::ranges::minmax(all, {}, &std::pair<double, double>::first);
  const auto [y0, y1] = std::ranges::minmax(all, {}, &std::pair<double, double>::second);
  const Scale sx(x.logarithmic ? x0.first : std::min(0.0, x0.first), x1.first, kLeft, kWidth - kRight,
                 x.logarithmic);
  const Scale sy(y.logarithmic ? y0.second : std::min(0.0, y0.second), y1.second, kTop + kHeight, kTop,
                 y.logarithmic);
  std::string out = svg_open(kTop + kHeight + 50);
  for (const double v : sx.ticks()) {
    out += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/>\n", sx(v),
                       kTop, kTop + kHeight);
    out += text_at(sx(v), kTop + kHeight + 18, "middle", short_number(v));
  }
  for (const double v : sy.ticks()) {
    out += fmt::format("<line x1=\"{1}\" x2=\"{2}\" y1=\"{0:.1f}\" y2=\"{0:.1f}\" stroke=\"#ddd\"/>\n", sy(v),
                       kLeft, kWidth - kRight);
    out += text_at(kLeft - 6, sy(v) + 4, "end", short_number(v));
  }
  double legend = kTop + 14;
  for (const auto& c : curves) {
    const char* colour = colour_of(static_cast<size_t>(c.colour));
    std::string path;
    for (const auto& p : c.points) {
      if (!can_be_shown(p, x, y)) continue;
      path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : " L", sx(p.first), sy(p.second));
      if (!c.line || c.points.size() < 20)
        out += fmt::format(
            "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{}\" fill=\"{}\"><title>{}: {}, {}</title></circle>\n",
            sx(p.first), sy(p.second), c.line ? 3 : 6, colour, html_text(c.name), short_number(p.first),
            short_number(p.second));
    }
    if (path.empty()) continue;
    if (c.line)
      out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, colour);
    out += fmt::format("<circle cx=\"{}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\"/>\n", kWidth - kRight + 16,
                       legend - 4, colour);
    out += text_at(kWidth - kRight + 26, legend, "start", c.name);
    legend += 19;
  }
  out += text_at((kLeft + kWidth - kRight) / 2, kTop + kHeight + 40, "middle", x.title);
  out += fmt::format(
      "<text x=\"16\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {0})\">{1}</text>\n",
      kTop + kHeight / 2, html_text(y.title));
  return out + "</svg>\n";
}

}  // namespace tpubridge::tools
