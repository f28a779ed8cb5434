// A target needs a source: hone_pch and hone_tests_pch are made for their precompiled headers.
