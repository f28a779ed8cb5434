// Unicode's normalization form C (UAX #15): what looks the same is the same characters. "e" and a combining acute
// accent become one letter, Hangul jamo a syllable, marks of one letter stand in one order.
#pragma once

#include <string>
#include <string_view>

namespace hone::model {

// Appends the text in form C. Bytes that are no UTF-8 stay as they are, and nothing combines across them. Time is
// O(n log n) for any text.
void append_form_c(std::string_view text, std::string& out);

// Whether nothing of the text can be in another form: a look at its bytes, which says no to some texts that are in form
// C.
bool surely_form_c(std::string_view text);

}  // namespace hone::model
