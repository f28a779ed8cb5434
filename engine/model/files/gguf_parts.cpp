// A model in several GGUF files: NAME-00001-of-00003.gguf and so on. The first has the metadata of all, each has the
// tensors in it and split.no, split.count and split.tensors.count, of all parts together.
//
// Which parts belong together nothing in them says but these three numbers: parts of two models are told by tensors
// that are there twice, missing or of another shape.
#include <fmt/format.h>

#include <map>

#include "engine/base/printable.h"
#include "engine/model/files/formats_internal.h"

namespace hone::model {
namespace {

constexpr int64_t kMostParts = 65535;  // the numbers have 16 bits

std::string part_suffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

Status in_part(const std::string& name, const Status& status) {
  return {status.code(), fmt::format("{}: {}", printable(name), status.message())};
}

// What names of parts begin with; nothing where `name` is not one of part `number`.
std::optional<std::string> prefix_of(const std::string& name, const GgufSplit& split) {
  const std::string suffix = part_suffix(split.number, split.count);
  if (name.size() <= suffix.size() || !name.ends_with(suffix)) return std::nullopt;
  return name.substr(0, name.size() - suffix.size());
}

class Parts {
 public:
  Parts(GgufFile& first, const GgufSplit& split, const GgufParts& parts)
      : first_(first), split_(split), parts_(parts) {}

  Status append(const std::string& prefix) {
    for (const Weight& w : first_.tensors()) part_of_.emplace(w.name, 0);
    for (int64_t i = 1; i < split_.count; ++i) {
      const std::string name = prefix + part_suffix(i, split_.count);
      Result<std::span<const std::byte>> bytes = parts_.open(name);
      if (!bytes.ok()) return in_part(name, unopened(bytes.status(), i));
      if (Status s = append(*bytes, i); !s.ok()) return in_part(name, s);
    }
    if (const auto found = std::ssize(first_.tensors()); found != split_.tensors)
      return data_loss(fmt::format("{} tensors in {} parts, metadata \"split.tensors.count\" is {}", found,
                                   split_.count, split_.tensors));
    return {};
  }

 private:
  Status unopened(const Status& why, int64_t number) const {
    if (why.code() != Code::kNotFound) return why;
    return not_found(
        fmt::format("part {} of {} is missing; all parts must lie in one folder", number + 1, split_.count));
  }

  Status append(std::span<const std::byte> bytes, int64_t number) {
    HONE_ASSIGN_OR_RETURN(GgufFile part, GgufFile::parse(bytes));
    HONE_ASSIGN_OR_RETURN(const GgufSplit split, split_of(part));
    if (split.number != number || split.count != split_.count)
      return data_loss(fmt::format("it is part {} of {}, by its name part {} of {}", split.number + 1, split.count,
                                   number + 1, split_.count));
    if (split.tensors != split_.tensors)
      return data_loss(fmt::format("it belongs to a model of {} tensors, the first part to one of {}", split.tensors,
                                   split_.tensors));
    for (Weight& w : part.tensors()) {
      const auto [before, added] = part_of_.emplace(w.name, number);
      if (!added)
        return data_loss(fmt::format("tensor \"{}\" is in part {} too", printable(w.name), before->second + 1));
      first_.tensors().push_back(std::move(w));
    }
    return {};
  }

  GgufFile& first_;
  const GgufSplit& split_;
  const GgufParts& parts_;
  std::map<std::string, int64_t> part_of_;
};

}  // namespace

Result<GgufSplit> split_of(const GgufFile& file) {
  GgufSplit split;
  HONE_ASSIGN_OR_RETURN(const auto count, file.integer("split.count"));
  if (count.value_or(1) <= 1 && count.value_or(0) >= 0) return split;
  HONE_ASSIGN_OR_RETURN(const auto number, file.integer("split.no"));
  HONE_ASSIGN_OR_RETURN(const auto tensors, file.integer("split.tensors.count"));
  split = {.number = number.value_or(-1), .count = *count, .tensors = tensors.value_or(-1)};
  if (split.count < 0 || split.count > kMostParts)
    return data_loss(fmt::format("metadata \"split.count\" is {}, it must be 0 to {}", split.count, kMostParts));
  if (split.number < 0 || split.number >= split.count)
    return data_loss(number ? fmt::format("metadata \"split.no\" is {}, of {} parts", split.number, split.count)
                            : "metadata \"split.no\" is missing");
  if (split.tensors < 0)
    return data_loss(tensors ? fmt::format("metadata \"split.tensors.count\" is {}", split.tensors)
                             : "metadata \"split.tensors.count\" is missing");
  return split;
}

Status append_parts(GgufFile& file, const GgufParts& parts) {
  HONE_ASSIGN_OR_RETURN(const GgufSplit split, split_of(file));
  if (split.count == 1) return {};
  const std::optional<std::string> prefix = prefix_of(parts.name, split);
  if (split.number != 0)
    return invalid_argument(
        fmt::format("part {} of {} of a model; open the first one{}", split.number + 1, split.count,
                    prefix ? fmt::format(", {}{}", printable(*prefix), part_suffix(0, split.count)) : ""));
  if (!prefix)
    return invalid_argument(
        fmt::format("the first of {} parts, and the others are found by a name that ends in {}; "
                    "rename it, or merge the parts",
                    split.count, part_suffix(0, split.count)));
  return Parts(file, split, parts).append(*prefix);
}

}  // namespace hone::model
