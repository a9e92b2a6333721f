import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.*;
import org.apache.avro.io.*;

/** Java's Avro, as an independent judge: between lines of hexadecimal digits and lines of Avro's JSON. */
public class Judge {
    public static void main(String[] arguments) throws Exception {
        Schema writer = new Schema.Parser().parse(Files.readString(Path.of(arguments[1])));
        Schema reader = arguments.length < 3 ? writer : new Schema.Parser().parse(Files.readString(Path.of(arguments[2])));
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line; (line = lines.readLine()) != null; ) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            if (arguments[0].equals("encode")) {
                Object value = new GenericDatumReader<>(writer).read(null, DecoderFactory.get().jsonDecoder(writer, line));
                Encoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
                new GenericDatumWriter<>(writer).write(value, encoder);
                encoder.flush();
                out.println(HexFormat.of().formatHex(bytes.toByteArray()));
            } else {
                Decoder decoder = DecoderFactory.get().binaryDecoder(HexFormat.of().parseHex(line), null);
                Object value = new GenericDatumReader<>(writer, reader).read(null, decoder);
                JsonEncoder encoder = EncoderFactory.get().jsonEncoder(reader, bytes, false);
                new GenericDatumWriter<>(reader).write(value, encoder);
                encoder.flush();
                out.println(bytes.toString(StandardCharsets.UTF_8));
            }
        }
    }
}
