#include "db/pages.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace hone::db {
namespace {

constexpr size_t kFileHeader = 100;  // at the start of page 1
constexpr int kDeepest = 20;         // SQLite's own limit of a tree's depth (BTCURSOR_MAX_DEPTH)

uint64_t big_endian(std::string_view bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

// A SQLite varint: seven bits a byte, the high bit says that another follows, the ninth byte counts whole.
bool read_varint(std::string_view bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int i = 0; i < 9; ++i) {
    if (at >= bytes.size()) return false;
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    if (i == 8) {
      value = value << 8 | byte;
      return true;
    }
    value = value << 7 | (byte & 0x7fu);
    if ((byte & 0x80u) == 0) return true;
  }
  return true;
}

// Bytes at `at` that make one character of a text; 0 when they do not: a control character, or no UTF-8.
size_t character(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return (lead >= 0x20 && lead != 0x7f) || lead == '\n' || lead == '\t' ? 1 : 0;
  const size_t more = lead >= 0xf0 && lead < 0xf5   ? 3
                      : lead >= 0xe0 && lead < 0xf0 ? 2
                      : lead >= 0xc2 && lead < 0xe0 ? 1
                                                    : 0;
  if (more == 0 || at + more >= text.size()) return 0;
  for (size_t k = 1; k <= more; ++k)
    if ((static_cast<unsigned char>(text[at + k]) & 0xc0u) != 0x80u) return 0;
  return more + 1;
}

// A sector that was overwritten inside a long text leaves the page well formed. A text may hold any byte, so single
// control characters and words in another encoding are let through: it is noise where four bytes in a row are no
// characters and one of them is a control character. 512 bytes of noise or zeros have such a run all but surely.
bool plausible_text(std::string_view text) {
  size_t run = 0;
  bool control = false;
  for (size_t i = 0; i < text.size();) {
    if (const size_t size = character(text, i); size != 0) {
      i += size;
      run = 0;
      control = false;
      continue;
    }
    control = control || static_cast<unsigned char>(text[i]) < 0x80;
    if (++run >= 4 && control) return false;
    ++i;
  }
  return true;
}

int64_t sign_extend(uint64_t value, size_t bytes) {
  const size_t shift = 64 - 8 * bytes;
  return static_cast<int64_t>(value << shift) >> shift;
}

// One value of serial type `type`; false when there is no such type or the text cannot be ours.
bool read_value(std::string_view body, size_t& at, uint64_t type, Value& value) {
  constexpr size_t kIntegerBytes[] = {0, 1, 2, 3, 4, 6, 8};
  size_t size = 0;
  if (type >= 12) {
    size = static_cast<size_t>((type - 12) / 2);
  } else if (type <= 6) {
    size = kIntegerBytes[type];
  } else if (type == 7) {
    size = 8;
  } else if (type == 10 || type == 11) {
    return false;
  }
  if (size > body.size() - at) return false;
  const std::string_view bytes = body.substr(at, size);
  at += size;
  if (type == 0) {
    value = std::monostate{};
  } else if (type <= 6) {
    value = sign_extend(big_endian(bytes, 0, size), size);
  } else if (type == 7) {
    value = std::bit_cast<double>(big_endian(bytes, 0, 8));
  } else if (type <= 9) {
    value = static_cast<int64_t>(type - 8);
  } else if (type % 2 == 0) {
    value = Blob{std::string(bytes)};
  } else {
    if (!plausible_text(bytes)) return false;
    value = std::string(bytes);
  }
  return true;
}

// A record fills its payload exactly.
bool read_record(std::string_view payload, std::vector<Value>& values) {
  size_t at = 0;
  uint64_t header = 0;
  if (!read_varint(payload, at, header) || header < at || header > payload.size()) return false;
  size_t body = static_cast<size_t>(header);
  const std::string_view types = payload.substr(0, body);
  while (at < types.size()) {
    uint64_t type = 0;
    Value value;
    if (!read_varint(types, at, type) || !read_value(payload, body, type, value)) return false;
    values.push_back(std::move(value));
  }
  return body == payload.size() && !values.empty();
}

// The areas of a page body: cells and free blocks. Sound when they do not overlap, and the bytes between them are as
// many as the header says are lost in fragments.
bool areas_fit(std::vector<std::pair<size_t, size_t>>& areas, size_t begin, size_t end, size_t fragments) {
  std::sort(areas.begin(), areas.end());
  size_t at = begin, lost = 0;
  for (const auto& [start, size] : areas) {
    if (start < at) return false;
    lost += start - at;
    at = start + size;
  }
  return at <= end && lost + (end - at) == fragments;
}

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool valid_page_size(size_t size) { return size >= 512 && size <= 65536 && std::has_single_bit(size); }

// The log's checksum: two running sums over 32-bit words, in the byte order that the log's magic number names.
struct LogSum {
  uint32_t a = 0, b = 0;
  bool big = false;
  void add(std::string_view bytes) {
    for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      a += word(bytes, i) + b;
      b += word(bytes, i + 4) + a;
    }
  }
  uint32_t word(std::string_view bytes, size_t at) const {
    const auto value = static_cast<uint32_t>(big_endian(bytes, at, 4));
    return big ? value : __builtin_bswap32(value);
  }
};

}  // namespace

struct DamagedFile::Walk {
  Tree tree;
  const std::function<void(Row&&)>& on_record;
  int bad = 0;
  std::optional<Row> last = {};

  bool ascends(const Row& a, const Row& b) const { return DamagedFile::ascends(tree, a, b); }
};

bool DamagedFile::ascends(Tree tree, const Row& a, const Row& b) {
  return tree == Tree::kRowid ? a.rowid < b.rowid : a.values < b.values;
}

std::optional<DamagedFile> DamagedFile::read(const std::string& path) {
  DamagedFile file;
  file.bytes_ = slurp(path);
  file.log_ = slurp(path + "-wal");
  if (file.bytes_.size() < kFileHeader) return std::nullopt;
  const size_t raw = static_cast<size_t>(big_endian(file.bytes_, 16, 2));
  const size_t size = raw == 1 ? 65536 : raw;
  if (valid_page_size(size)) file.page_size_ = size;
  file.usable_ = file.page_size_;  // this program reserves no bytes
  file.apply_log(file.log_);
  const size_t pages = file.bytes_.size() / file.page_size_ + file.in_log_.size() + 1;
  file.visited_.assign(pages + 1, false);
  return file;
}

void DamagedFile::apply_log(std::string_view log) {
  constexpr size_t kLogHeader = 32, kFrameHeader = 24;
  if (log.size() < kLogHeader || big_endian(log, 0, 4) >> 1 != 0x377f0682u >> 1) return;
  if (big_endian(log, 8, 4) != page_size_) return;
  LogSum sum{.a = 0, .b = 0, .big = (big_endian(log, 0, 4) & 1) != 0};
  sum.add(log.substr(0, 24));
  if (sum.a != big_endian(log, 24, 4) || sum.b != big_endian(log, 28, 4)) return;
  std::unordered_map<uint32_t, size_t> pending;  // of a transaction whose commit has not been seen
  for (size_t at = kLogHeader; at + kFrameHeader + page_size_ <= log.size(); at += kFrameHeader + page_size_) {
    if (log.substr(at + 8, 8) != log.substr(16, 8)) return;  // left over from an earlier use of the log
    sum.add(log.substr(at, 8));
    sum.add(log.substr(at + kFrameHeader, page_size_));
    if (sum.a != big_endian(log, at + 16, 4) || sum.b != big_endian(log, at + 20, 4)) return;
    pending[static_cast<uint32_t>(big_endian(log, at, 4))] = at + kFrameHeader;
    if (big_endian(log, at + 4, 4) == 0) continue;
    for (const auto& [number, offset] : pending) in_log_[number] = offset;
    pending.clear();
  }
}

uint32_t DamagedFile::header_field(size_t offset) const {
  const std::string_view first = page(1);
  return first.size() < kFileHeader ? 0 : static_cast<uint32_t>(big_endian(first, offset, 4));
}

std::string_view DamagedFile::page(uint32_t number) const {
  const auto logged = in_log_.find(number);
  if (logged != in_log_.end()) return std::string_view(log_).substr(logged->second, page_size_);
  const size_t at = (size_t{number} - 1) * page_size_;
  if (number == 0 || at + page_size_ > bytes_.size()) return {};
  return std::string_view(bytes_).substr(at, page_size_);
}

int DamagedFile::read_tree(int64_t root, Tree tree, const std::function<void(Row&&)>& on_record) {
  Walk walk{.tree = tree, .on_record = on_record};
  if (root < 1 || root > UINT32_MAX) return 1;
  visit(walk, static_cast<uint32_t>(root), nullptr, 0);
  return walk.bad;
}

std::vector<uint32_t> DamagedFile::orphans() const {
  std::vector<bool> taken = visited_;
  const uint32_t count = header_field(36);
  uint32_t listed = 0;
  for (uint32_t trunk = header_field(32); trunk != 0; ++listed) {
    const std::string_view bytes = page(trunk);
    if (bytes.empty() || trunk >= taken.size() || taken[trunk]) return {};
    taken[trunk] = true;
    const size_t leaves = static_cast<size_t>(big_endian(bytes, 4, 4));
    if (leaves > usable_ / 4 - 2) return {};
    for (size_t i = 0; i < leaves; ++i, ++listed) {
      const auto leaf = static_cast<uint32_t>(big_endian(bytes, 8 + 4 * i, 4));
      if (leaf < taken.size()) taken[leaf] = true;
    }
    trunk = static_cast<uint32_t>(big_endian(bytes, 0, 4));
  }
  if (listed != count) return {};
  std::vector<uint32_t> found;
  for (uint32_t number = 2; number < taken.size(); ++number) {
    if (!taken[number] && !page(number).empty()) found.push_back(number);
  }
  return found;
}

void DamagedFile::read_leaf(uint32_t number, Tree tree, const std::function<void(Row&&)>& on_record) {
  Page p = parse(number, tree);
  if (!p.leaf || !p.sound) return;
  for (Cell& cell : p.cells) on_record(std::move(cell.record));
}

// `limit`: no key below this page may be greater.
void DamagedFile::visit(Walk& walk, uint32_t number, const Row* limit, int depth) {
  if (depth > kDeepest || number >= visited_.size() || visited_[number] || page(number).empty()) {
    ++walk.bad;
    return;
  }
  visited_[number] = true;
  Page p = parse(number, walk.tree);
  const auto emit = [&](Row&& record) {
    walk.last = record;
    walk.on_record(std::move(record));
  };
  if (p.leaf) {
    const auto misplaced = [&] {
      return (walk.last && !walk.ascends(*walk.last, p.cells.front().record)) ||
             (limit && walk.ascends(*limit, p.cells.back().record));
    };
    if (!p.sound || (!p.cells.empty() && misplaced())) {
      ++walk.bad;
      return;
    }
    for (Cell& cell : p.cells) emit(std::move(cell.record));
    return;
  }
  // A bad interior page still leads to children; each of them is judged by what is in it.
  if (!p.sound) ++walk.bad;
  for (Cell& cell : p.cells) {
    visit(walk, cell.child, p.sound ? &cell.record : limit, depth + 1);
    if (!p.sound || walk.tree == Tree::kRowid) continue;
    if (walk.last && !walk.ascends(*walk.last, cell.record)) {
      ++walk.bad;
    } else {
      emit(std::move(cell.record));
    }
  }
  if (p.right != 0) visit(walk, p.right, limit, depth + 1);
}

DamagedFile::Page DamagedFile::parse(uint32_t number, Tree tree) const {
  Page result;
  const std::string_view bytes = page(number);
  const size_t base = number == 1 ? kFileHeader : 0;
  const auto type = static_cast<unsigned char>(bytes[base]);
  const bool rowids = tree == Tree::kRowid;
  result.leaf = type != (rowids ? 0x05 : 0x02);
  if (result.leaf && type != (rowids ? 0x0d : 0x0a)) return result;
  const size_t header = base + (result.leaf ? 8 : 12), count = static_cast<size_t>(big_endian(bytes, base + 3, 2));
  const size_t start = static_cast<size_t>(big_endian(bytes, base + 5, 2));
  const size_t content = start == 0 ? 65536 : start;
  if (!result.leaf) result.right = static_cast<uint32_t>(big_endian(bytes, base + 8, 4));
  if (header + 2 * count > usable_) return result;
  result.sound = content >= header + 2 * count && content <= usable_ && (result.leaf || count > 0);
  std::vector<std::pair<size_t, size_t>> areas;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(big_endian(bytes, header + 2 * i, 2));
    Cell cell;
    size_t size = 0;
    if (at < content || !parse_cell(bytes, at, tree, result.leaf, cell, size)) {
      result.sound = false;
      continue;
    }
    areas.emplace_back(at, size);
    if (!result.cells.empty() && !ascends(tree, result.cells.back().record, cell.record)) result.sound = false;
    result.cells.push_back(std::move(cell));
  }
  size_t block = static_cast<size_t>(big_endian(bytes, base + 1, 2));
  while (block != 0 && result.sound) {
    if (block < content || block + 4 > usable_) break;
    areas.emplace_back(block, static_cast<size_t>(big_endian(bytes, block + 2, 2)));
    const size_t next = static_cast<size_t>(big_endian(bytes, block, 2));
    if (next != 0 && next <= block) break;
    block = next;
  }
  const auto fragments = static_cast<unsigned char>(bytes[base + 7]);
  result.sound = result.sound && block == 0 && areas_fit(areas, content, usable_, fragments);
  return result;
}

bool DamagedFile::parse_cell(std::string_view page, size_t at, Tree tree, bool leaf, Cell& cell, size_t& size) const {
  const size_t begin = at;
  const std::string_view bytes = page.substr(0, usable_);
  if (!leaf) {
    if (at + 4 > bytes.size()) return false;
    cell.child = static_cast<uint32_t>(big_endian(bytes, at, 4));
    at += 4;
  }
  uint64_t length = 0, rowid = 0;
  if ((leaf || tree == Tree::kKeyed) && !read_varint(bytes, at, length)) return false;
  if (tree == Tree::kRowid && !read_varint(bytes, at, rowid)) return false;
  cell.record.rowid = static_cast<int64_t>(rowid);
  if (leaf || tree == Tree::kKeyed) {
    if (length > bytes_.size() + log_.size()) return false;
    std::string payload;
    size_t local = 0;
    if (!read_payload(bytes, at, static_cast<size_t>(length), tree, leaf, payload, local)) return false;
    if (!read_record(payload, cell.record.values)) return false;
    at += local;
  }
  size = std::max<size_t>(at - begin, 4);  // SQLite never gives a cell less
  return begin + size <= bytes.size();
}

// The part of a payload that is in the cell, and the rest from its chain of overflow pages. `local`: bytes of the cell.
bool DamagedFile::read_payload(std::string_view bytes, size_t at, size_t length, Tree tree, bool leaf,
                               std::string& payload, size_t& local) const {
  const size_t most = tree == Tree::kRowid && leaf ? usable_ - 35 : (usable_ - 12) * 64 / 255 - 23;
  const size_t least = (usable_ - 12) * 32 / 255 - 23;
  size_t here = length;
  if (length > most) {
    here = least + (length - least) % (usable_ - 4);
    if (here > most) here = least;
  }
  local = here + (here < length ? 4 : 0);
  if (local > bytes.size() - at) return false;
  payload.assign(bytes.substr(at, here));
  if (here == length) return true;
  auto next = static_cast<uint32_t>(big_endian(bytes, at + here, 4));
  while (payload.size() < length) {
    const std::string_view overflow = page(next);
    if (overflow.empty()) return false;
    payload.append(overflow.substr(4, std::min(length - payload.size(), usable_ - 4)));
    next = static_cast<uint32_t>(big_endian(overflow, 0, 4));
  }
  return next == 0;
}

}  // namespace hone::db
