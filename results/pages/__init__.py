"""The pages that the records in this folder render: RESULTS.md and one page of tables per task. Not in the wheel.

python -m results.pages            # from the root of the repository; rewrites the pages
python -m results.pages --check    # exit status 1 if a page is not what the records say
"""
