// Chat templates as a table. Files carry them as Jinja programs; running those would be an interpreter for the sake of
// a dozen texts that everybody uses, and a program from outside that decides what is special. So the known ones are
// here by name, with the strings that llama.cpp has for these names, and a file's program is only looked at for
// markers.
//
// Three families: each turn between markers that name its role (chatml, Llama 3, Zephyr), turns that each role has
// words of its own for (Vicuna, DeepSeek), and questions between [INST] and [/INST] (Llama 2, Mistral).
#include "engine/model/tokenizer/chat.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/base/printable.h"

namespace hone::model {
namespace {

// before + role + after_role + content + end.
struct RoleStyle {
  std::string_view before, after_role, end;
  bool trimmed = false;
  std::string_view system = {};  // said where the first message is no system message
};

struct InstructionStyle {
  std::string_view open = "[INST] ", open_again = "[INST] ", close = " [/INST]";
  std::string_view system_open = "<<SYS>>\n", system_close = "\n<</SYS>>\n\n";
  std::string_view answer_open = {};
  bool trim = false, trim_answer = false;
  bool system_inside = true;  // the system message is part of the first question; else it stands before it
};

// begin + content + end, by role.
struct SpeakerStyle {
  std::string_view system = {}, system_end = {}, user = {}, user_end = {}, assistant = {}, assistant_end = {};
  std::string_view answer = {};  // what the model goes on from
};

struct Template {
  std::string_view name;
  RoleStyle roles = {};
  SpeakerStyle speakers = {};
  InstructionStyle instructions = {};
};

constexpr RoleStyle kChatml = {.before = "<|im_start|>", .after_role = "\n", .end = "<|im_end|>\n"};
constexpr RoleStyle with_system(RoleStyle style, std::string_view system) {
  style.system = system;
  return style;
}

constexpr SpeakerStyle kVicuna = {.system_end = "\n\n",
                                  .user = "USER: ",
                                  .user_end = "\n",
                                  .assistant = "ASSISTANT: ",
                                  .assistant_end = "</s>\n",
                                  .answer = "ASSISTANT:"};
constexpr SpeakerStyle with_system(SpeakerStyle style, std::string_view begin, std::string_view end) {
  style.system = begin, style.system_end = end;
  return style;
}
constexpr SpeakerStyle kVicunaOrca = with_system(kVicuna, "SYSTEM: ", "\n");

constexpr InstructionStyle kMistralV1 = {
    .open = " [INST] ", .open_again = " [INST] ", .system_open = "", .system_close = "\n\n", .answer_open = " "};
constexpr Template kTemplates[] = {
    {.name = "chatml", .roles = kChatml},
    {.name = "qwen1.5", .roles = with_system(kChatml, "You are a helpful assistant")},
    {.name = "qwen2", .roles = with_system(kChatml, "You are a helpful assistant.")},
    {.name = "qwen2.5",
     .roles = with_system(kChatml, "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")},
    {.name = "smollm2",
     .roles = with_system(kChatml, "You are a helpful AI assistant named SmolLM, trained by Hugging Face")},
    {.name = "llama3",
     .roles = {.before = "<|start_header_id|>",
               .after_role = "<|end_header_id|>\n\n",
               .end = "<|eot_id|>",
               .trimmed = true}},
    {.name = "zephyr", .roles = {.before = "<|", .after_role = "|>\n", .end = "<|endoftext|>\n"}},
    {.name = "tinyllama", .roles = {.before = "<|", .after_role = "|>\n", .end = "</s>\n"}},
    {.name = "phi3", .roles = {.before = "<|", .after_role = "|>\n", .end = "<|end|>\n"}},
    {.name = "phi4", .roles = {.before = "<|im_start|>", .after_role = "<|im_sep|>", .end = "<|im_end|>"}},
    {.name = "falcon3", .roles = {.before = "<|", .after_role = "|>\n", .end = "\n"}},
    {.name = "vicuna", .speakers = kVicuna},
    {.name = "vicuna-orca", .speakers = kVicunaOrca},
    {.name = "openchat",
     .speakers = {.system_end = "<|end_of_turn|>",
                  .user = "GPT4 Correct User: ",
                  .user_end = "<|end_of_turn|>",
                  .assistant = "GPT4 Correct Assistant: ",
                  .assistant_end = "<|end_of_turn|>",
                  .answer = "GPT4 Correct Assistant:"}},
    {.name = "deepseek",
     .speakers = {.user = "### Instruction:\n",
                  .user_end = "\n",
                  .assistant = "### Response:\n",
                  .assistant_end = "\n<|EOT|>\n",
                  .answer = "### Response:\n"}},
    {.name = "deepseek3",
     .speakers = {.system_end = "\n\n",
                  .user = "<\uff5cUser\uff5c>",
                  .assistant = "<\uff5cAssistant\uff5c>",
                  .assistant_end = "<\uff5cend\u2581of\u2581sentence\uff5c>",
                  .answer = "<\uff5cAssistant\uff5c>"}},
    {.name = "llama2", .instructions = {.system_open = "", .system_close = "\n"}},
    {.name = "llama2-sys"},
    {.name = "llama2-sys-bos", .instructions = {.open_again = "<s>[INST] "}},
    {.name = "llama2-sys-strip", .instructions = {.trim = true}},
    {.name = "mistral", .instructions = kMistralV1},
    {.name = "mistral-v1", .instructions = kMistralV1},
    {.name = "mistral-v3",
     .instructions =
         {.close = "[/INST]", .system_open = "", .system_close = "\n\n", .answer_open = " ", .trim_answer = true}},
    {.name = "mistral-v3-tekken",
     .instructions =
         {.open = "[INST]", .open_again = "[INST]", .close = "[/INST]", .system_open = "", .system_close = "\n\n"}},
    {.name = "mistral-v7",
     .instructions = {.close = "[/INST]",
                      .system_open = "[SYSTEM_PROMPT] ",
                      .system_close = "[/SYSTEM_PROMPT]",
                      .answer_open = " ",
                      .system_inside = false}},
};

const Template* template_of(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTemplates), std::end(kTemplates), [&](const Template& t) { return t.name == name; });
  return found == std::end(kTemplates) ? nullptr : found;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

class Conversation {
 public:
  void says(std::string_view text) { append(text, true); }     // the template
  void quotes(std::string_view text) { append(text, false); }  // a person
  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  void append(std::string_view text, bool special) {
    if (text.empty()) return;
    if (pieces_.empty() || pieces_.back().special != special) pieces_.push_back({.text = {}, .special = special});
    pieces_.back().text += text;
  }
  std::vector<ChatPiece> pieces_;
};

void turn(Conversation& out, const RoleStyle& style, std::string_view role, std::string_view content) {
  out.says(style.before);
  out.says(role);
  out.says(style.after_role);
  out.quotes(style.trimmed ? trimmed(content) : content);
  out.says(style.end);
}

void by_roles(Conversation& out, const RoleStyle& style, std::span<const ChatMessage> messages, bool answer) {
  if (!style.system.empty() && (messages.empty() || messages[0].role != "system"))
    turn(out, style, "system", style.system);
  for (const ChatMessage& m : messages) turn(out, style, m.role, m.content);
  if (answer) {
    out.says(style.before);
    out.says("assistant");
    out.says(style.after_role);
  }
}

void by_speakers(Conversation& out, const SpeakerStyle& style, std::span<const ChatMessage> messages, bool answer) {
  for (const ChatMessage& m : messages) {
    const bool system = m.role == "system", user = m.role == "user";
    out.says(system ? style.system : user ? style.user : style.assistant);
    out.quotes(m.content);
    out.says(system ? style.system_end : user ? style.user_end : style.assistant_end);
  }
  if (answer) out.says(style.answer);
}

// A question's end is what makes the model answer: nothing more is appended for it.
void by_instructions(Conversation& out, const InstructionStyle& style, std::span<const ChatMessage> messages) {
  bool inside = false, first = true;
  for (const ChatMessage& m : messages) {
    const bool is_answer = m.role == "assistant", is_system = m.role == "system";
    const std::string_view content = style.trim || (is_answer && style.trim_answer) ? trimmed(m.content) : m.content;
    if (!inside && !(is_system && !style.system_inside) && !(is_answer && !style.system_inside)) {
      out.says(first ? style.open : style.open_again);
      inside = true;
      first = false;
    }
    if (is_system) out.says(style.system_open);
    if (is_answer) out.says(style.answer_open);
    out.quotes(content);
    out.says(is_system ? style.system_close : is_answer ? "</s>" : style.close);
    if (is_answer || !style.system_inside) inside = false;
  }
}

}  // namespace

std::vector<std::string_view> chat_template_names() {
  std::vector<std::string_view> names;
  for (const Template& t : kTemplates) names.push_back(t.name);
  return names;
}

std::string_view recognise_chat_template(std::string_view jinja) {
  if (const Template* named = template_of(jinja)) return named->name;
  const auto has = [jinja](std::string_view marker) { return jinja.find(marker) != std::string_view::npos; };
  if (has("<|im_start|>")) {
    if (has("<|im_sep|>")) return "phi4";
    if (has("<end_of_utterance>")) return "";  // SmolVLM: no turns of chatml
    if (has("named SmolLM")) return "smollm2";
    if (has("You are Qwen")) return "qwen2.5";
    if (has("You are a helpful assistant<|im_end|>")) return "qwen1.5";
    return has("You are a helpful assistant") ? "qwen2" : "chatml";
  }
  if (has("[INST]")) {
    if (has("[SYSTEM_PROMPT]")) return "mistral-v7";
    if (has("' [INST] ' + system_message") || has("[AVAILABLE_TOOLS]"))
      return has(" [INST]") ? "mistral-v1" : has("\"[INST]\"") ? "mistral-v3-tekken" : "mistral-v3";
    if (has("content.strip()")) return "llama2-sys-strip";
    if (has("bos_token + '[INST]")) return "llama2-sys-bos";
    return has("<<SYS>>") ? "llama2-sys" : "llama2";
  }
  if (has("<|assistant|>") && has("<|end|>")) return "phi3";
  if (has("<|user|>") && has("<|endoftext|>")) return "zephyr";
  if (has("<|user|>") && has("<|assistant|>")) return has("eos_token") ? "tinyllama" : has("</s>") ? "falcon3" : "";
  if (has("GPT4 Correct ")) return "openchat";
  if (has("USER: ") && has("ASSISTANT: ")) return has("SYSTEM: ") ? "vicuna-orca" : "vicuna";
  if (has("### Instruction:") && has("<|EOT|>")) return "deepseek";
  if (has("<|start_header_id|>") && has("<|end_header_id|>")) return "llama3";
  if (has("<\uff5cAssistant\uff5c>") && has("<\uff5cUser\uff5c>")) return "deepseek3";
  return "";
}

Result<std::vector<ChatPiece>> apply_chat_template(std::string_view name, std::span<const ChatMessage> messages,
                                                   bool answer) {
  const Template* found = template_of(name);
  if (found == nullptr) {
    std::string names;
    for (const Template& t : kTemplates) names += fmt::format(" {}", t.name);
    return not_found(fmt::format("there is no chat template '{}'; there are{}", printable(name), names));
  }
  constexpr std::array<std::string_view, 3> kRoles = {"system", "user", "assistant"};
  for (const ChatMessage& m : messages)
    if (std::find(kRoles.begin(), kRoles.end(), m.role) == kRoles.end())
      return invalid_argument(
          fmt::format("the chat template '{}' has no words for the role '{}'; there are system, user "
                      "and assistant",
                      name, printable(m.role, 40)));
  Conversation out;
  if (!found->roles.before.empty()) {
    by_roles(out, found->roles, messages, answer);
  } else if (!found->speakers.user.empty()) {
    by_speakers(out, found->speakers, messages, answer);
  } else {
    by_instructions(out, found->instructions, messages);
  }
  return out.take();
}

std::vector<std::string_view> markers_lacking(const Tokenizer& tokenizer, std::string_view name) {
  const Template* found = template_of(name);
  if (found == nullptr) return {};
  std::vector<std::string_view> lacking;
  const auto want = [&](std::string_view text) {
    const std::string_view marker = trimmed(text);
    // What lacks one bracket is finished by a role; such names are text in most vocabularies, as is [INST].
    const bool special = marker == "</s>" || (marker.starts_with("<|") && marker.ends_with("|>")) ||
                         (marker.starts_with("<\uff5c") && marker.ends_with("\uff5c>"));
    if (special && !tokenizer.find(marker) && std::ranges::find(lacking, marker) == lacking.end())
      lacking.push_back(marker);
  };
  const SpeakerStyle& speakers = found->speakers;
  if (found->roles.before.empty() && speakers.user.empty()) want("</s>");
  for (const std::string_view text : {found->roles.before, found->roles.after_role, found->roles.end,
                                      speakers.system_end, speakers.user, speakers.assistant, speakers.assistant_end})
    want(text);
  return lacking;
}

Result<std::vector<int32_t>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPiece> pieces) {
  std::vector<TextPart> parts;
  for (const ChatPiece& piece : pieces) parts.push_back({.text = piece.text, .parse_special = piece.special});
  HONE_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.encode(parts, false));
  const Vocabulary& of = tokenizer.vocabulary();
  if (of.add_bos && of.bos >= 0 && (ids.empty() || ids.front() != of.bos)) ids.insert(ids.begin(), of.bos);
  return ids;
}

}  // namespace hone::model
