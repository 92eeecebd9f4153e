from .overview import overview as overview
from .records import Record as Record
from .records import read_records as read_records
from .records import write_record as write_record
from .tables import Cell as Cell
from .tables import Row as Row
from .tables import Table as Table
from .tables import render as render
