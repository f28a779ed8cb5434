// See entry.h. The checksum is compared before anything else is read, so the fields behind it are as they were written;
// a reader still takes nothing for granted, as the writer may have been another program.
#include "jit/cache/entry.h"

#include <charconv>
#include <utility>

#include "engine/base/sha256.h"

namespace hone::jit {
namespace {

// Raise it with any change of the format: it is part of every key, so that builds of both kinds can share a folder.
constexpr std::string_view kFormat = "hone-kernel 2";
constexpr std::string_view kAnyFormat = "hone-kernel ";
constexpr size_t kMaxLabel = 200;

std::string printable(std::string_view text) {
  std::string out(text.substr(0, kMaxLabel));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '_';
  return out;
}

void add_field(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ' ';
  out += value;
  out += '\n';
}

class Reader {
 public:
  explicit Reader(std::string_view file) : rest_(file) {}

  std::string_view rest() const { return rest_; }
  const Status& status() const { return status_; }

  // The value of the line "name value".
  std::string_view field(std::string_view name) {
    if (!status_.ok()) return {};
    const size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    const bool named = line.size() > name.size() && line.starts_with(name) && line[name.size()] == ' ';
    if (end == std::string_view::npos || !named) {
      status_ = data_loss("it has no line '" + std::string(name) + "'");
      return {};
    }
    rest_.remove_prefix(end + 1);
    return line.substr(name.size() + 1);
  }

  uint64_t number(std::string_view name) {
    const std::string_view text = field(name);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status_.ok() && (error != std::errc() || end != text.data() + text.size()))
      status_ = data_loss("'" + std::string(name) + "' is no number");
    return value;
  }

  // A line as it must be.
  void expect(std::string_view line, const char* otherwise) {
    if (!status_.ok()) return;
    if (!rest_.starts_with(line) || !rest_.substr(line.size()).starts_with('\n')) {
      status_ = data_loss(otherwise);
      return;
    }
    rest_.remove_prefix(line.size() + 1);
  }

  void fail_unless(bool holds, const char* otherwise) {
    if (status_.ok() && !holds) status_ = data_loss(otherwise);
  }

 private:
  std::string_view rest_;
  Status status_;
};

}  // namespace

std::string CacheKey::id() const {
  Sha256 hash;
  // With lengths, no field can pass for a part of its neighbour.
  for (const std::string_view field : {kFormat, std::string_view(generator), std::string_view(version),
                                       std::string_view(isa), std::string_view(target), std::string_view(loop_ir)})
    hash.add(std::to_string(field.size())).add("\n").add(field);
  return hash.hex();
}

std::string CacheKey::lowering() const { return sha256_hex(target).substr(0, 16); }

std::string encode_entry(std::string_view id, const CachedCode& code) {
  std::string body;
  body.reserve(code.object.size() + 1024);
  add_field(body, "key", id);
  add_field(body, "generator", printable(code.label.generator));
  add_field(body, "version", printable(code.label.version));
  add_field(body, "isa", printable(code.label.isa));
  add_field(body, "lowering", printable(code.label.lowering));
  add_field(body, "kernel", printable(code.label.kernel));
  add_field(body, "symbol", code.symbol);
  add_field(body, "size", std::to_string(code.size));
  add_field(body, "object", std::to_string(code.object.size()));
  body += '\n';
  body += code.object;
  std::string file(kFormat);
  file += '\n';
  add_field(file, "sha256", sha256_hex(body));
  return file + body;
}

Result<CachedCode> decode_entry(std::string_view file, std::string_view id) {
  const std::string_view format = file.substr(0, file.find('\n'));
  if (format != kFormat && format.starts_with(kAnyFormat) && format.size() < kAnyFormat.size() + 10 &&
      format.size() < file.size())
    return unsupported("it is of another format: '" + printable(format) + "', this build has '" + std::string(kFormat) +
                       "'");
  Reader in(file);
  in.expect(kFormat, "it does not begin as an entry of this format");
  const std::string_view checksum = in.field("sha256");
  HONE_RETURN_IF_ERROR(in.status());
  in.fail_unless(sha256_hex(in.rest()) == checksum, "it is truncated or was changed (checksum)");
  in.fail_unless(in.field("key") == id, "it was made from something else than its name says");
  CachedCode code;
  code.label.generator = in.field("generator");
  code.label.version = in.field("version");
  code.label.isa = in.field("isa");
  code.label.lowering = in.field("lowering");
  code.label.kernel = in.field("kernel");
  code.symbol = in.field("symbol");
  code.size = in.number("size");
  const uint64_t bytes = in.number("object");
  in.expect("", "its header does not end");
  in.fail_unless(in.rest().size() == bytes, "its object has another size than it says");
  in.fail_unless(code.size <= bytes, "its function is larger than its object");
  HONE_RETURN_IF_ERROR(in.status());
  code.object = in.rest();
  return code;
}

}  // namespace hone::jit
