"""What is used of aiohttp: its protocol, its parser and their errors; its client and its connector are left aside."""

from aiohttp.client_exceptions import ClientError as ClientError
from aiohttp.client_exceptions import ClientPayloadError as ClientPayloadError
from aiohttp.client_exceptions import ServerDisconnectedError as ServerDisconnectedError
from aiohttp.client_proto import ResponseHandler as ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError as HttpProcessingError
from aiohttp.http_parser import RawResponseMessage as RawResponseMessage
from aiohttp.streams import StreamReader as StreamReader
