// Text that ends at the first of some stop texts, which may come in any pieces: what could begin one is held back until
// it cannot.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hone::cli {

class StopText {
 public:
  // None of them is empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // What of the text so far can be shown. Nothing after a stop text was met.
  std::string push(std::string_view piece) {
    if (met_) return {};
    held_ += piece;
    size_t at = std::string::npos;
    for (const std::string& stop : stops_) at = std::min(at, held_.find(stop));
    met_ = at != std::string::npos;
    const size_t shown = met_ ? at : held_.size() - could_begin();
    std::string text = held_.substr(0, shown);
    held_.erase(0, met_ ? std::string::npos : shown);
    return text;
  }
  // What was held back, when no more comes.
  std::string finish() { return std::exchange(held_, {}); }
  bool met() const { return met_; }

 private:
  // The longest end of what is held that is the beginning of a stop text.
  size_t could_begin() const {
    size_t longest = 0;
    for (const std::string& stop : stops_)
      for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n)
        if (held_.ends_with(std::string_view(stop).substr(0, n))) longest = n;
    return longest;
  }

  std::vector<std::string> stops_;
  std::string held_;
  bool met_ = false;
};

}  // namespace hone::cli
