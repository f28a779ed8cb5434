// See gdb_internal.h. The file in memory has a symbol and an address and nothing else, for either code generator:
// LLVM's own object has no more to say (no line numbers, and unwinding is by frames), and would have to be patched with
// the addresses first.
#include <elf.h>

#include <cstring>
#include <mutex>

#include "jit/announce/gdb_internal.h"

extern "C" {

// The debugger's breakpoint. The compiler must neither inline it nor move the writes to the list behind it.
[[gnu::noinline, gnu::used]] void __jit_debug_register_code() { asm volatile("" ::: "memory"); }

[[gnu::used]] jit_descriptor __jit_debug_descriptor = {
    .version = 1, .action_flag = 0, .relevant_entry = nullptr, .first_entry = nullptr};

}  // extern "C"

namespace hone::jit {
namespace {

enum Action : uint32_t { kNone, kRegister, kUnregister };

std::mutex& list_mutex() {
  static std::mutex& mutex = *new std::mutex;  // never destroyed: kernels may be let go while the process ends
  return mutex;
}

void tell(Action action, jit_code_entry& entry) {
  __jit_debug_descriptor.action_flag = action;
  __jit_debug_descriptor.relevant_entry = &entry;
  __jit_debug_register_code();
  // Who attaches later reads the list alone.
  __jit_debug_descriptor.action_flag = kNone;
  __jit_debug_descriptor.relevant_entry = nullptr;
}

#if defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
constexpr uint16_t kMachine = EM_X86_64;
#endif

// A string table: names behind each other, each found by its offset.
struct Strings {
  std::string bytes = std::string(1, '\0');
  uint32_t add(const std::string& name) {
    const auto at = static_cast<uint32_t>(bytes.size());
    bytes += name + '\0';
    return at;
  }
};

template <typename T>
void append(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

GdbRegistration::GdbRegistration(const std::string& symbol, std::span<const std::byte> code)
    : elf_(symbol_elf(symbol, code)) {
  entry_ = {.next_entry = nullptr, .prev_entry = nullptr, .symfile_addr = elf_.data(), .symfile_size = elf_.size()};
  const std::lock_guard lock(list_mutex());
  entry_.next_entry = __jit_debug_descriptor.first_entry;
  if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = &entry_;
  __jit_debug_descriptor.first_entry = &entry_;
  tell(kRegister, entry_);
}

GdbRegistration::~GdbRegistration() {
  const std::lock_guard lock(list_mutex());
  if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = entry_.prev_entry;
  (entry_.prev_entry != nullptr ? entry_.prev_entry->next_entry : __jit_debug_descriptor.first_entry) =
      entry_.next_entry;
  tell(kUnregister, entry_);
}

std::string symbol_elf(const std::string& symbol, std::span<const std::byte> code) {
  enum Section : uint16_t { kNull, kText, kSymtab, kStrtab, kShstrtab, kSections };
  Strings names, symbols;
  Elf64_Shdr sections[kSections] = {};
  const auto address = reinterpret_cast<uint64_t>(code.data());
  // No bytes in the file: they are in the process.
  sections[kText] = {.sh_name = names.add(".text"),
                     .sh_type = SHT_NOBITS,
                     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                     .sh_addr = address,
                     .sh_size = code.size(),
                     .sh_addralign = 16};
  sections[kSymtab] = {.sh_name = names.add(".symtab"),
                       .sh_type = SHT_SYMTAB,
                       .sh_size = 2 * sizeof(Elf64_Sym),
                       .sh_link = kStrtab,
                       .sh_info = 1,  // the first that is not local
                       .sh_addralign = 8,
                       .sh_entsize = sizeof(Elf64_Sym)};
  const Elf64_Sym null_symbol = {};
  const Elf64_Sym function = {.st_name = symbols.add(symbol),
                              .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                              .st_other = STV_DEFAULT,
                              .st_shndx = kText,
                              .st_value = 0,  // from the start of its section
                              .st_size = code.size()};
  sections[kStrtab] = {.sh_name = names.add(".strtab"), .sh_type = SHT_STRTAB, .sh_addralign = 1};
  sections[kShstrtab] = {.sh_name = names.add(".shstrtab"), .sh_type = SHT_STRTAB, .sh_addralign = 1};

  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_REL;
  header.e_machine = kMachine;
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSections;
  header.e_shstrndx = kShstrtab;

  uint64_t at = sizeof header + sizeof sections;
  sections[kText].sh_offset = at;
  for (const Section s : {kSymtab, kStrtab, kShstrtab}) {
    if (s == kStrtab) sections[s].sh_size = symbols.bytes.size();
    if (s == kShstrtab) sections[s].sh_size = names.bytes.size();
    sections[s].sh_offset = at;
    at += sections[s].sh_size;
  }
  std::string elf;
  append(elf, header);
  append(elf, sections);
  append(elf, null_symbol);
  append(elf, function);
  return elf + symbols.bytes + names.bytes;
}

}  // namespace hone::jit
